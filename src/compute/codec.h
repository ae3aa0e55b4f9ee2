// Codecs of hidden states on the wire: f32 (exact) and f16 (half the bytes, lossy), little-endian.
// Thread rule: pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace meadow::compute {

enum class Codec : uint8_t { kF32 = 0, kF16 = 1 };

// "f32", "f16".
std::string_view name(Codec codec);
// The codec of that name, or nothing.
std::optional<Codec> codec_named(std::string_view name);

// Bytes of one value.
constexpr int64_t value_bytes(Codec codec) { return codec == Codec::kF32 ? 4 : 2; }

// f16 rounds to nearest even. kInvalidArgument for a value that is not finite or, in f16, that
// rounds to infinity (65520 and above): it names the value's index.
Result<Bytes> encode(Codec codec, std::span<const float> values);

// The `count` values in `bytes`, which must hold exactly them. kInvalidArgument for another size or
// a value that is not finite.
Result<std::vector<float>> decode(Codec codec, ByteView bytes, int64_t count);

}  // namespace meadow::compute
