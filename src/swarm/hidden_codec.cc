#include "swarm/hidden_codec.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace meadow::swarm {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

namespace {

std::unexpected<Error> not_finite(size_t index) {
  return fail(Code::kInvalidArgument,
              "hidden states: value {} is not finite, or too large for the codec", index);
}

// ---- q8: per 32 values a scale (bfloat16) and 8-bit integers ------------------------------------

constexpr size_t kBlock = 32;
constexpr size_t kScaleBytes = 2;
constexpr float kLargest = 127;
// Beyond it 127 scales may be infinite.
constexpr float kMaxMagnitude = 3.3e38f;

// To the nearest integer, ties to even, for magnitudes below 2^22.
float nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

// The least bfloat16 that is not below x > 0: no value then needs more than 127 steps.
uint16_t round_up(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0xffff) >> 16);
}

void encode_block(std::span<const float> x, uint8_t* out) {
  float most = 0;
  for (const float v : x) most = std::max(most, std::fabs(v));
  const float exact = most / kLargest;
  if (exact < FLT_MIN) {
    std::memset(out, 0, kScaleBytes + x.size());
    return;
  }
  const uint16_t scale = round_up(exact);
  const float d = bfloat_to_float(scale);
  std::memcpy(out, &scale, kScaleBytes);
  for (size_t i = 0; i < x.size(); i++) {
    const float q = std::clamp(nearest(x[i] / d), -kLargest, kLargest);
    out[kScaleBytes + i] = static_cast<uint8_t>(static_cast<int8_t>(q));
  }
}

bool decode_block(const uint8_t* in, std::span<float> x) {
  uint16_t scale;
  std::memcpy(&scale, in, kScaleBytes);
  const float d = bfloat_to_float(scale);
  if (scale != 0 && !(d >= FLT_MIN && d <= kMaxMagnitude / kLargest * 1.01f)) return false;
  bool sound = true;
  for (size_t i = 0; i < x.size(); i++) {
    const auto q = static_cast<int8_t>(in[kScaleBytes + i]);
    sound &= q != INT8_MIN && (scale != 0 || q == 0);
    x[i] = static_cast<float>(q) * d;
    sound &= std::isfinite(x[i]);
  }
  return sound;
}

Result<Bytes> encode_q8(std::span<const float> values, size_t row) {
  for (size_t i = 0; i < values.size(); i++)
    if (!(std::fabs(values[i]) <= kMaxMagnitude)) return not_finite(i);
  const size_t per_position =
      static_cast<size_t>(bytes_per_position(static_cast<int64_t>(row), Codec::kQ8));
  Bytes out(row == 0 ? 0 : values.size() / row * per_position);
  uint8_t* to = out.data();
  for (size_t at = 0; at < values.size(); at += row)
    for (size_t i = 0; i < row; i += kBlock) {
      const size_t n = std::min(kBlock, row - i);
      encode_block(values.subspan(at + i, n), to);
      to += kScaleBytes + n;
    }
  return out;
}

Result<std::vector<float>> decode_q8(ByteView bytes, size_t row) {
  const size_t per_position =
      static_cast<size_t>(bytes_per_position(static_cast<int64_t>(row), Codec::kQ8));
  std::vector<float> out(row == 0 ? 0 : bytes.size() / per_position * row);
  const uint8_t* from = bytes.data();
  for (size_t at = 0; at < out.size(); at += row)
    for (size_t i = 0; i < row; i += kBlock) {
      const size_t n = std::min(kBlock, row - i);
      if (!decode_block(from, std::span(out).subspan(at + i, n))) return not_finite(at + i);
      from += kScaleBytes + n;
    }
  return out;
}

// ---- f32, f16
// ------------------------------------------------------------------------------------

Result<Bytes> encode_floats(std::span<const float> values, bool half) {
  Bytes out(values.size() * (half ? 2 : 4));
  for (size_t i = 0; i < values.size(); i++) {
    if (!std::isfinite(values[i])) return not_finite(i);
    if (half) {
      const uint16_t h = float_to_half(values[i]);
      if ((h & 0x7c00) == 0x7c00) return not_finite(i);
      std::memcpy(out.data() + 2 * i, &h, 2);
    } else {
      std::memcpy(out.data() + 4 * i, &values[i], 4);
    }
  }
  return out;
}

Result<std::vector<float>> decode_floats(ByteView bytes, bool half) {
  std::vector<float> out(bytes.size() / (half ? 2 : 4));
  for (size_t i = 0; i < out.size(); i++) {
    if (half) {
      uint16_t h;
      std::memcpy(&h, bytes.data() + 2 * i, 2);
      out[i] = half_to_float(h);
    } else {
      std::memcpy(&out[i], bytes.data() + 4 * i, 4);
    }
    if (!std::isfinite(out[i])) return not_finite(i);
  }
  return out;
}

// Values of a position that fills all bytes; 0 if there is none.
int64_t whole_row(size_t bytes, Codec codec) {
  if (codec != Codec::kQ8) return static_cast<int64_t>(bytes) / (codec == Codec::kF16 ? 2 : 4);
  const size_t blocks = (bytes + kBlock + kScaleBytes - 1) / (kBlock + kScaleBytes);
  return static_cast<int64_t>(bytes) - static_cast<int64_t>(kScaleBytes * blocks);
}

}  // namespace

Result<Bytes> encode(std::span<const float> values, Codec codec, int64_t n_embd) {
  const size_t row = n_embd > 0 ? static_cast<size_t>(n_embd) : values.size();
  if (row > 0 && values.size() % row != 0)
    return fail(Code::kInvalidArgument, "hidden states: {} values are no whole positions of {}",
                values.size(), row);
  return codec == Codec::kQ8 ? encode_q8(values, row) : encode_floats(values, codec == Codec::kF16);
}

Result<std::vector<float>> decode(ByteView bytes, Codec codec, int64_t n_embd) {
  if (bytes.empty()) return std::vector<float>();
  const int64_t row = n_embd > 0 ? n_embd : whole_row(bytes.size(), codec);
  const int64_t size = row > 0 ? bytes_per_position(row, codec) : 0;
  if (size <= 0 || static_cast<int64_t>(bytes.size()) % size != 0)
    return fail(Code::kInvalidArgument, "hidden states: {} bytes are no whole positions in {}",
                bytes.size(), name(codec));
  return codec == Codec::kQ8 ? decode_q8(bytes, static_cast<size_t>(row))
                             : decode_floats(bytes, codec == Codec::kF16);
}

}  // namespace meadow::swarm
