#include "compute/codec.h"

#include <bit>
#include <cmath>

#include "base/half.h"

namespace meadow::compute {
namespace {

void put_u16(uint8_t* to, uint16_t v) {
  to[0] = static_cast<uint8_t>(v);
  to[1] = static_cast<uint8_t>(v >> 8);
}

void put_u32(uint8_t* to, uint32_t v) {
  put_u16(to, static_cast<uint16_t>(v));
  put_u16(to + 2, static_cast<uint16_t>(v >> 16));
}

uint16_t get_u16(const uint8_t* from) { return static_cast<uint16_t>(from[0] | from[1] << 8); }

uint32_t get_u32(const uint8_t* from) {
  return get_u16(from) | static_cast<uint32_t>(get_u16(from + 2)) << 16;
}

}  // namespace

std::string_view name(Codec codec) { return codec == Codec::kF32 ? "f32" : "f16"; }

std::optional<Codec> codec_named(std::string_view text) {
  for (Codec codec : {Codec::kF32, Codec::kF16})
    if (text == name(codec)) return codec;
  return std::nullopt;
}

Result<Bytes> encode(Codec codec, std::span<const float> values) {
  Bytes out(values.size() * static_cast<size_t>(value_bytes(codec)));
  for (size_t i = 0; i < values.size(); i++) {
    if (!std::isfinite(values[i]))
      return fail(Code::kInvalidArgument, "hidden state: value {} of {} is not finite", i,
                  values.size());
    if (codec == Codec::kF32) {
      put_u32(&out[4 * i], std::bit_cast<uint32_t>(values[i]));
      continue;
    }
    const uint16_t half = float_to_half(values[i]);
    if ((half & 0x7fff) == 0x7c00)
      return fail(Code::kInvalidArgument,
                  "hidden state: value {} of {} is {}, beyond the range of f16; use the f32 codec",
                  i, values.size(), values[i]);
    put_u16(&out[2 * i], half);
  }
  return out;
}

Result<std::vector<float>> decode(Codec codec, ByteView bytes, int64_t count) {
  const auto size = static_cast<uint64_t>(value_bytes(codec));
  if (count < 0 || bytes.size() % size != 0 || bytes.size() / size != static_cast<uint64_t>(count))
    return fail(Code::kInvalidArgument, "hidden state: expected {} {} values, got {} bytes", count,
                name(codec), bytes.size());
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); i++) {
    out[i] = codec == Codec::kF32 ? std::bit_cast<float>(get_u32(&bytes[4 * i]))
                                  : half_to_float(get_u16(&bytes[2 * i]));
    if (!std::isfinite(out[i]))
      return fail(Code::kInvalidArgument, "hidden state: value {} of {} is not finite", i, count);
  }
  return out;
}

}  // namespace meadow::compute
