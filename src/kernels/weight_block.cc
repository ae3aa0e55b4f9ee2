#include "kernels/weight_block.h"

#include <bit>

#include "base/check.h"
#include "base/half.h"

namespace meadow::kernels {
namespace {

float read_f16(const uint8_t* p) { return half_to_float(static_cast<uint16_t>(p[0] | p[1] << 8)); }

// Half of 2^(e - 127), which is the scale of doubled values; subnormal for e < 2. 255 is NaN in the
// format's specification and 2^127 to ggml; finite_scales refuses it.
float half_of_e8m0(uint32_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

// Bits `shift` … `shift` + 1, 3 or 0 of 32 bytes in a row.
int two_bits(const uint8_t* p, int i, int64_t shift) { return p[i] >> shift & 3; }
int four_bits(const uint8_t* p, int i, int64_t shift) { return p[i] >> shift & 15; }
int one_bit(const uint8_t* p, int i, int64_t shift) { return p[i] >> shift & 1; }

// Types of 32 values hold value i in the low half of byte i, value i + 16 in its high half.
int nibble(const uint8_t* p, int i) { return four_bits(p, i % 16, i < 16 ? 0 : 4); }
// … and the fifth bits as one little-endian number.
int fifth_bit(const uint8_t* p, int i) { return one_bit(p, i / 8, i % 8) << 4; }

template <class Quant>
void fill(WeightBlock& w, Quant q) {
  for (int i = 0; i < 32; i++) w.q[i] = static_cast<int16_t>(q(i));
}

// Q3_K: 16 scales of 6 bits, offset 32, in 12 bytes: eight bytes of low nibbles (0 to 7 low, 8 to
// 15 high), four bytes of upper pairs of bits.
int q3_k_scale(const uint8_t* p, int64_t s) {
  const int low = p[s % 8] >> (s < 8 ? 0 : 4) & 15, high = p[8 + s % 4] >> 2 * (s / 4) & 3;
  return (low | high << 4) - 32;
}

// Q4_K and Q5_K: 8 scales and 8 minimums of 6 bits in 12 bytes: four scales, four minimums, then
// the low nibbles of the other four of each; their upper bits are those of the first eight bytes.
int q4_k_scale(const uint8_t* p, int64_t b) {
  return b < 4 ? p[b] & 63 : (p[b + 4] & 15) | p[b - 4] >> 6 << 4;
}
int q4_k_minimum(const uint8_t* p, int64_t b) {
  return b < 4 ? p[b + 4] & 63 : p[b + 4] >> 4 | p[b] >> 6 << 4;
}

// Blocks of 32 values.
void small_block(DType type, const uint8_t* p, WeightBlock& w) {
  switch (type) {
    case DType::kQ8_0:
      fill(w, [&](int i) { return static_cast<int8_t>(p[2 + i]); });
      break;
    case DType::kQ4_0:
      fill(w, [&](int i) { return nibble(p + 2, i) - 8; });
      break;
    case DType::kQ4_1:
      fill(w, [&](int i) { return nibble(p + 4, i); });
      break;
    case DType::kQ5_0:
      fill(w, [&](int i) { return (nibble(p + 6, i) | fifth_bit(p + 2, i)) - 16; });
      break;
    case DType::kQ5_1:
      fill(w, [&](int i) { return nibble(p + 8, i) | fifth_bit(p + 4, i); });
      break;
    case DType::kIQ4_NL:
      fill(w, [&](int i) { return kIq4NlValues[nibble(p + 2, i)]; });
      break;
    case DType::kMXFP4:
      fill(w, [&](int i) { return kMxfp4Values[nibble(p + 1, i)]; });
      break;
    default:
      MEADOW_CHECK(false);
  }
}

// Values 32 b … of a stored block of 256.
void part_of_large_block(DType type, const uint8_t* p, int64_t b, WeightBlock& w) {
  const int64_t half = b / 4, quarter = b % 4;
  switch (type) {
    case DType::kQ2_K:
      fill(w, [&](int i) { return two_bits(p + 16 + 32 * half, i, 2 * quarter); });
      break;
    case DType::kQ3_K:  // a set high bit means no offset
      fill(w, [&](int i) {
        return two_bits(p + 32 + 32 * half, i, 2 * quarter) - (one_bit(p, i, b) != 0 ? 0 : 4);
      });
      break;
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const bool five = type == DType::kQ5_K;
      const uint8_t* low = p + (five ? 48 : 16) + 32 * (b / 2);
      fill(w, [&](int i) {
        return four_bits(low, i, 4 * (b % 2)) | (five ? one_bit(p + 16, i, b) << 4 : 0);
      });
      break;
    }
    case DType::kQ6_K:
      fill(w, [&](int i) {
        const int low = four_bits(p + 64 * half + 32 * (quarter % 2), i, 4 * (quarter / 2));
        return (low | two_bits(p + 128 + 32 * half, i, 2 * quarter) << 4) - 32;
      });
      break;
    default:
      MEADOW_CHECK(false);
  }
}

}  // namespace

BlockScales block_scales(DType type, const uint8_t* p, int64_t b) {
  const ScalePlaces at = scale_places(type);
  const uint8_t* scales = p + at.sub_scales;
  BlockScales s{.scale = {1, 1}, .minimum = {1, 1}, .d = 0, .m = 0};
  s.d = type == DType::kMXFP4 ? half_of_e8m0(p[0]) : read_f16(p + at.d);
  if (has_minimum(type)) s.m = read_f16(p + at.m);
  if (has_minimum(type) && info(type).block_values == 256) s.m = -s.m;
  if (type == DType::kQ4_K || type == DType::kQ5_K) {
    s.d *= static_cast<float>(q4_k_scale(scales, b));
    s.m *= static_cast<float>(q4_k_minimum(scales, b));
  }
  for (int h = 0; h < 2; h++) {
    const int64_t i = 2 * b + h;
    if (type == DType::kQ2_K) s.scale[h] = scales[i] & 15, s.minimum[h] = scales[i] >> 4;
    if (type == DType::kQ3_K) s.scale[h] = q3_k_scale(scales, i);
    if (type == DType::kQ6_K) s.scale[h] = static_cast<int8_t>(scales[i]);
  }
  return s;
}

WeightBlock weight_block(DType type, const uint8_t* row, int64_t b) {
  const DTypeInfo& t = info(type);
  const int64_t parts = t.block_values / 32, part = b % parts;
  const uint8_t* p = row + b / parts * t.block_bytes;
  const BlockScales s = block_scales(type, p, part);
  WeightBlock w{.q = {},
                .scale = {s.scale[0], s.scale[1]},
                .minimum = {s.minimum[0], s.minimum[1]},
                .d = s.d,
                .m = s.m};
  parts == 1 ? small_block(type, p, w) : part_of_large_block(type, p, part, w);
  return w;
}

bool finite_scales(DType type, const uint8_t* block) {
  const ScalePlaces at = scale_places(type);
  const auto finite_half = [block](int place) {
    return place < 0 || (block[place + 1] & 0x7c) != 0x7c;  // exponent of infinity and NaN
  };
  if (type == DType::kMXFP4) return block[at.d] != 255;
  return finite_half(at.d) && finite_half(at.m);
}

}  // namespace meadow::kernels
