#include "format/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/half.h"
#include "format/gguf_writer.h"
#include "format/quantise_parts.h"

namespace meadow::format {
namespace {

constexpr size_t kBlock = 32;
using Codes = int[kBlock];

// ggml's order: value i is the low nibble of byte i, value i + 16 its high one.
void append_nibbles(Bytes& out, const Codes& codes) {
  for (size_t i = 0; i < kBlock / 2; i++)
    out.push_back(static_cast<uint8_t>((codes[i] & 15) | (codes[i + kBlock / 2] & 15) << 4));
}
// The fifth bits of all as one number, then the nibbles.
void append_five_bits(Bytes& out, const Codes& codes) {
  uint32_t high = 0;
  for (size_t i = 0; i < kBlock; i++) high |= static_cast<uint32_t>(codes[i] >> 4) << i;
  append(out, high);
  append_nibbles(out, codes);
}

void append_q8_0(Bytes& out, std::span<const float> block) {
  const float d = append_half(out, largest_magnitude(block) / 127);
  for (const float v : block)
    append(out, static_cast<int8_t>(d == 0 ? 0 : clamped(v / d, -127, 127)));
}

// Q4_0 and Q5_0: the value of largest magnitude becomes `lowest` exactly.
void append_symmetric(Bytes& out, std::span<const float> block, int lowest) {
  const float d = append_half(out, extreme(block) / static_cast<float>(lowest));
  Codes codes;
  for (size_t i = 0; i < kBlock; i++)
    codes[i] = d == 0 ? -lowest : clamped(block[i] / d, lowest, -lowest - 1) - lowest;
  lowest == -8 ? append_nibbles(out, codes) : append_five_bits(out, codes);
}

// Q4_1 and Q5_1.
void append_from_minimum(Bytes& out, std::span<const float> block, int top) {
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  const float d = append_half(out, (*high - *low) / static_cast<float>(top));
  const float m = append_half(out, *low);
  Codes codes;
  for (size_t i = 0; i < kBlock; i++) codes[i] = d == 0 ? 0 : clamped((block[i] - m) / d, 0, top);
  top == 15 ? append_nibbles(out, codes) : append_five_bits(out, codes);
}

// The nearest of 16 values, times d.
void append_nearest(Bytes& out, std::span<const float> block, float d, const int (&values)[16]) {
  Codes codes;
  for (size_t i = 0; i < kBlock; i++) {
    const auto error = [&](int value) {
      return std::fabs(static_cast<float>(value) * d - block[i]);
    };
    const auto* nearest =
        std::min_element(values, values + 16, [&](int a, int b) { return error(a) < error(b); });
    codes[i] = static_cast<int>(nearest - values);
  }
  append_nibbles(out, codes);
}

void append_iq4_nl(Bytes& out, std::span<const float> block) {
  static constexpr int kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
  const float d = append_half(out, extreme(block) / -127);
  append_nearest(out, block, d, kValues);
}

void append_mxfp4(Bytes& out, std::span<const float> block) {
  static constexpr int kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const float largest = largest_magnitude(block);  // becomes 4 to 7.99 times the scale
  const int exponent = largest == 0 ? 0 : std::clamp(std::ilogb(largest) - 2 + 127, 0, 254);
  out.push_back(static_cast<uint8_t>(exponent));
  append_nearest(out, block, std::ldexp(1.0f, exponent - 128), kDoubled);
}

// Round to nearest even.
uint16_t bf16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void append_block(Bytes& out, DType type, std::span<const float> block) {
  switch (type) {
    case DType::kF32:
      return append(out, block[0]);
    case DType::kF16:
      return append(out, float_to_half(block[0]));
    case DType::kBF16:
      return append(out, bf16_bits(block[0]));
    case DType::kQ8_0:
      return append_q8_0(out, block);
    case DType::kQ4_0:
      return append_symmetric(out, block, -8);
    case DType::kQ5_0:
      return append_symmetric(out, block, -16);
    case DType::kQ4_1:
      return append_from_minimum(out, block, 15);
    case DType::kQ5_1:
      return append_from_minimum(out, block, 31);
    case DType::kIQ4_NL:
      return append_iq4_nl(out, block);
    case DType::kMXFP4:
      return append_mxfp4(out, block);
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return append_large_block(out, type, block);
  }
}

}  // namespace

Bytes quantise(DType type, std::span<const float> values) {
  MEADOW_CHECK(values.size() % static_cast<size_t>(info(type).block_values) == 0);
  Bytes out;
  out.reserve(static_cast<size_t>(row_bytes(type, static_cast<int64_t>(values.size()))));
  const auto step = static_cast<size_t>(info(type).block_values);
  for (size_t at = 0; at < values.size(); at += step)
    append_block(out, type, values.subspan(at, step));
  return out;
}

}  // namespace meadow::format
