// Blocks of 256 values in parts of 16 or 32, each with an integer scale (and minimum) of the
// block's. docs/model-files.md names the layouts.
#include <array>

#include "base/check.h"
#include "format/quantise_parts.h"

namespace meadow::format {
namespace {

constexpr size_t kValues = 256;

struct LargeBlock {
  std::array<int, kValues> codes{};          // what is stored, offset included
  std::array<int, 16> scales{}, minimums{};  // of each part
  uint16_t d = 0, dmin = 0;                  // halves
};

// value = d · scale · (code - offset), codes of 0 to 2 · offset - 1, scales of -`most` to `most`.
LargeBlock symmetric(std::span<const float> block, int offset, int most) {
  LargeBlock b;
  constexpr size_t kPart = 16;
  std::array<float, 16> wanted{};
  for (size_t p = 0; p < 16; p++)
    wanted[p] = extreme(block.subspan(p * kPart, kPart)) / static_cast<float>(-offset);
  b.d = float_to_half(largest_magnitude(wanted) / static_cast<float>(most));
  const float d = half_to_float(b.d);
  for (size_t p = 0; p < 16; p++) {
    b.scales[p] = d == 0 ? 0 : clamped(wanted[p] / d, -most, most);
    const float step = d * static_cast<float>(b.scales[p]);
    for (size_t i = p * kPart; i < (p + 1) * kPart; i++)
      b.codes[i] = (step == 0 ? 0 : clamped(block[i] / step, -offset, offset - 1)) + offset;
  }
  return b;
}

// value = d · scale · code - dmin · minimum, codes of 0 to `top`, scales and minimums of 0 to
// `most`, in parts of `part` values.
LargeBlock with_minimums(std::span<const float> block, size_t part, int top, int most) {
  LargeBlock b;
  const size_t parts = kValues / part;
  std::array<float, 16> scales{}, minimums{};
  for (size_t p = 0; p < parts; p++) {
    const auto values = block.subspan(p * part, part);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    minimums[p] = std::max(0.0f, -*low);
    scales[p] = std::max(0.0f, *high + minimums[p]) / static_cast<float>(top);
  }
  b.d = float_to_half(largest_magnitude(scales) / static_cast<float>(most));
  b.dmin = float_to_half(largest_magnitude(minimums) / static_cast<float>(most));
  const float d = half_to_float(b.d), dmin = half_to_float(b.dmin);
  for (size_t p = 0; p < parts; p++) {
    b.scales[p] = d == 0 ? 0 : clamped(scales[p] / d, 0, most);
    b.minimums[p] = dmin == 0 ? 0 : clamped(minimums[p] / dmin, 0, most);
    const float step = d * static_cast<float>(b.scales[p]);
    const float minimum = dmin * static_cast<float>(b.minimums[p]);
    for (size_t i = p * part; i < (p + 1) * part; i++)
      b.codes[i] = step == 0 ? 0 : clamped((block[i] + minimum) / step, 0, top);
  }
  return b;
}

// Bits `first` … of the codes, `width` of them each: byte i of a group of 32 bytes holds values i,
// i + 32, i + 64, … of its 256 / 8 · … values, lowest bits first.
void append_planes(Bytes& out, const LargeBlock& b, int first, int width) {
  const size_t per_byte = static_cast<size_t>(8 / width);
  for (size_t start = 0; start < kValues; start += 32 * per_byte)
    for (size_t i = 0; i < 32; i++) {
      int byte = 0;
      for (size_t j = 0; j < per_byte; j++)
        byte |= (b.codes[start + 32 * j + i] >> first & ((1 << width) - 1))
                << (width * static_cast<int>(j));
      out.push_back(static_cast<uint8_t>(byte));
    }
}

// Q6_K's low nibbles: byte i of 64 holds values i and i + 64 of 128.
void append_wide_nibbles(Bytes& out, const LargeBlock& b) {
  for (size_t start = 0; start < kValues; start += 128)
    for (size_t i = start; i < start + 64; i++)
      out.push_back(static_cast<uint8_t>((b.codes[i] & 15) | (b.codes[i + 64] & 15) << 4));
}

void append_q3_k_scales(Bytes& out, const LargeBlock& b) {
  std::array<int, 12> bytes{};
  for (size_t s = 0; s < 16; s++) {
    const int scale = b.scales[s] + 32;
    bytes[s % 8] |= (scale & 15) << (s < 8 ? 0 : 4);
    bytes[8 + s % 4] |= (scale >> 4) << (2 * static_cast<int>(s / 4));
  }
  for (int byte : bytes) out.push_back(static_cast<uint8_t>(byte));
}

void append_q4_k_scales(Bytes& out, const LargeBlock& b) {
  for (const auto* all : {&b.scales, &b.minimums})
    for (size_t s = 0; s < 4; s++)
      out.push_back(static_cast<uint8_t>((*all)[s] | ((*all)[s + 4] >> 4) << 6));
  for (size_t s = 4; s < 8; s++)
    out.push_back(static_cast<uint8_t>((b.scales[s] & 15) | (b.minimums[s] & 15) << 4));
}

}  // namespace

void append_large_block(Bytes& out, DType type, std::span<const float> block) {
  MEADOW_CHECK(block.size() == kValues);
  switch (type) {
    case DType::kQ2_K: {
      const LargeBlock b = with_minimums(block, 16, 3, 15);
      for (size_t s = 0; s < 16; s++)
        out.push_back(static_cast<uint8_t>(b.scales[s] | b.minimums[s] << 4));
      append_planes(out, b, 0, 2);
      append(out, b.d);
      append(out, b.dmin);
      return;
    }
    case DType::kQ3_K: {
      const LargeBlock b = symmetric(block, 4, 31);
      append_planes(out, b, 2, 1);
      append_planes(out, b, 0, 2);
      append_q3_k_scales(out, b);
      append(out, b.d);
      return;
    }
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const bool five = type == DType::kQ5_K;
      const LargeBlock b = with_minimums(block, 32, five ? 31 : 15, 63);
      append(out, b.d);
      append(out, b.dmin);
      append_q4_k_scales(out, b);
      if (five) append_planes(out, b, 4, 1);
      append_planes(out, b, 0, 4);
      return;
    }
    case DType::kQ6_K: {
      const LargeBlock b = symmetric(block, 32, 127);
      append_wide_nibbles(out, b);
      append_planes(out, b, 4, 2);
      for (size_t s = 0; s < 16; s++) append(out, static_cast<int8_t>(b.scales[s]));
      append(out, b.d);
      return;
    }
    default:
      MEADOW_CHECK(false);
  }
}

}  // namespace meadow::format
