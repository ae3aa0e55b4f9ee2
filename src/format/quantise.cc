#include "format/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
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
  const uint16_t scale = f16_bits(largest / 127);
  const float d = from_f16_bits(scale);
  append(out, scale);
  for (const float v : block)
    append(out, static_cast<int8_t>(d == 0 ? 0 : clamped(v / d, -127, 127)));
}

void append_q4_0(Bytes& out, std::span<const float> block) {
  float extreme = 0;  // the value of largest magnitude becomes -8 exactly
  for (const float v : block)
    if (std::fabs(v) > std::fabs(extreme)) extreme = v;
  const uint16_t scale = f16_bits(extreme / -8);
  const float d = from_f16_bits(scale);
  append(out, scale);
  int codes[kBlock];
  for (size_t i = 0; i < kBlock; i++) codes[i] = d == 0 ? 8 : clamped(block[i] / d + 8, 0, 15);
  append_nibbles(out, codes);
}

void append_q4_1(Bytes& out, std::span<const float> block) {
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  const uint16_t scale = f16_bits((*high - *low) / 15);
  const uint16_t minimum = f16_bits(*low);
  const float d = from_f16_bits(scale), m = from_f16_bits(minimum);
  append(out, scale);
  append(out, minimum);
  int codes[kBlock];
  for (size_t i = 0; i < kBlock; i++) codes[i] = d == 0 ? 0 : clamped((block[i] - m) / d, 0, 15);
  append_nibbles(out, codes);
}

}  // namespace

uint16_t f16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to 2^16 or more
  if (magnitude < 0x38800000) {                       // below the least normal: units of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    return sign | static_cast<uint16_t>(std::nearbyint(scaled));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000) >> 13);
}

uint16_t bf16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float from_f16_bits(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(fraction / 16777216.0f));
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

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
        append(out, f16_bits(values[at]));
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
