// Hidden states as bytes: the codecs of messages.h.
// Thread rule: pure functions.
#pragma once
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "swarm/messages.h"

namespace meadow::swarm {

// values f32, any count. kInvalidArgument if one is not finite, or (f16) too large for the codec.
Result<Bytes> encode(std::span<const float> values, Codec codec);
// bytes hold whole values. kInvalidArgument if not, or if one is not finite.
Result<std::vector<float>> decode(ByteView bytes, Codec codec);

}  // namespace meadow::swarm
