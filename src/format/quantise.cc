#include "format/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/half.h"
#include "format/gguf_writer.h"

namespace meadow::format {
namespace {

constexpr size_t kBlock = 32;

int clamped(float value, int low, int high) {
  return static_cast<int>(
      std::clamp(std::nearbyint(value), static_cast<float>(low), static_cast<float>(high)));
}

// ggml's nibble order: value i low, value i + 16 high.
void append_nibbles(Bytes& out, const int (&codes)[kBlock]) {
  for (size_t i = 0; i < kBlock / 2; i++)
    out.push_back(static_cast<uint8_t>(codes[i] | codes[i + kBlock / 2] << 4));
}

void append_q8_0(Bytes& out, std::span<const float> block) {
  float largest = 0;
  for (const float v : block) largest = std::max(largest, std::fabs(v));
  const uint16_t scale = float_to_half(largest / 127);
  const float d = half_to_float(scale);
  append(out, scale);
  for (const float v : block)
    append(out, static_cast<int8_t>(d == 0 ? 0 : clamped(v / d, -127, 127)));
}

void append_q4_0(Bytes& out, std::span<const float> block) {
  float extreme = 0;  // the value of largest magnitude becomes -8 exactly
  for (const float v : block)
    if (std::fabs(v) > std::fabs(extreme)) extreme = v;
  const uint16_t scale = float_to_half(extreme / -8);
  const float d = half_to_float(scale);
  append(out, scale);
  int codes[kBlock];
  for (size_t i = 0; i < kBlock; i++) codes[i] = d == 0 ? 8 : clamped(block[i] / d + 8, 0, 15);
  append_nibbles(out, codes);
}

void append_q4_1(Bytes& out, std::span<const float> block) {
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  const uint16_t scale = float_to_half((*high - *low) / 15);
  const uint16_t minimum = float_to_half(*low);
  const float d = half_to_float(scale), m = half_to_float(minimum);
  append(out, scale);
  append(out, minimum);
  int codes[kBlock];
  for (size_t i = 0; i < kBlock; i++) codes[i] = d == 0 ? 0 : clamped((block[i] - m) / d, 0, 15);
  append_nibbles(out, codes);
}

// Round to nearest even.
uint16_t bf16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

Bytes quantise(DType type, std::span<const float> values) {
  MEADOW_CHECK(values.size() % static_cast<size_t>(info(type).block_values) == 0);
  Bytes out;
  out.reserve(static_cast<size_t>(row_bytes(type, static_cast<int64_t>(values.size()))));
  const auto step = static_cast<size_t>(info(type).block_values);
  for (size_t at = 0; at < values.size(); at += step) {
    switch (type) {
      case DType::kF32:
        append(out, values[at]);
        break;
      case DType::kF16:
        append(out, float_to_half(values[at]));
        break;
      case DType::kBF16:
        append(out, bf16_bits(values[at]));
        break;
      case DType::kQ8_0:
        append_q8_0(out, values.subspan(at, kBlock));
        break;
      case DType::kQ4_0:
        append_q4_0(out, values.subspan(at, kBlock));
        break;
      case DType::kQ4_1:
        append_q4_1(out, values.subspan(at, kBlock));
        break;
    }
  }
  return out;
}

}  // namespace meadow::format
