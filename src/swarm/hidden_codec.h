// Hidden states as bytes: the codecs of messages.h. docs/wire-format.md has the layouts.
// Thread rule: pure functions. They round to nearest, ties to even, whatever the processor.
#pragma once
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "swarm/messages.h"

namespace meadow::swarm {

// values: f32 [n_embd, count], any count; n_embd 0: all of them are one position.
// kInvalidArgument if one is not finite, or too large for the codec.
Result<Bytes> encode(std::span<const float> values, Codec codec, int64_t n_embd = 0);
// The values of whole positions. kInvalidArgument if the bytes are not that, if a value would not
// be finite, or (q8) if they are no block that encode() makes.
Result<std::vector<float>> decode(ByteView bytes, Codec codec, int64_t n_embd = 0);

}  // namespace meadow::swarm
