// What 32 consecutive values of a quantised row are, for every weight type: the one description of
// the stored layouts that the reference, the exact values and the tests share. Internal to this
// folder. Thread rule: pure functions; any thread. Owns nothing.
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace meadow::kernels {

// Value i is d · scale[i / 16] · q[i], and with a minimum m · minimum[i / 16] is added to that.
// Types without 16-value sub-blocks have scale and minimum 1, but for Q4_K and Q5_K, whose integer
// scales are one per 32 values and are part of d and m: d = d_file · scale, m = -(dmin · minimum).
// Q2_K has m = -dmin. Those products of a half and at most 6 bits are exact in f32.
struct WeightBlock {
  int16_t q[32];
  int32_t scale[2], minimum[2];
  float d, m;
};

// All of a WeightBlock but its integers.
struct BlockScales {
  int32_t scale[2], minimum[2];
  float d, m;
};

constexpr bool has_minimum(DType type) {
  return type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ2_K ||
         type == DType::kQ4_K || type == DType::kQ5_K;
}

// Values 32 b … 32 b + 31 of the row. `type` is a quantised type.
WeightBlock weight_block(DType type, const uint8_t* row, int64_t b);
// Of part b of the stored block, which begins at p; b is 0 for types of 32 values.
BlockScales block_scales(DType type, const uint8_t* p, int64_t b);

// Offsets of the numbers that scale a stored block, in bytes; -1 where the type has none.
struct ScalePlaces {
  int d, m;                         // halves; MXFP4: d is the one byte of the exponent
  int sub_scales, sub_scale_bytes;  // packed integers
};
constexpr ScalePlaces scale_places(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return {-1, -1, -1, 0};
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kIQ4_NL:
    case DType::kMXFP4:
      return {0, -1, -1, 0};
    case DType::kQ4_1:
    case DType::kQ5_1:
      return {0, 2, -1, 0};
    case DType::kQ2_K:
      return {80, 82, 0, 16};
    case DType::kQ3_K:
      return {108, -1, 96, 12};
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2, 4, 12};
    case DType::kQ6_K:
      return {208, -1, 192, 16};
  }
  return {-1, -1, -1, 0};
}
// False if a scale or minimum of the stored block is infinite or NaN.
bool finite_scales(DType type, const uint8_t* block);

// IQ4_NL's values of a nibble.
inline constexpr int8_t kIq4NlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};
// MXFP4's, doubled so that they are integers (e2m1: 0 to 6 in steps of a half and more).
inline constexpr int8_t kMxfp4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace meadow::kernels
