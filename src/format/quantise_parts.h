// What quantise.cc and quantise_large.cc share. Internal to this folder.
// Thread rule: pure functions; any thread.
#pragma once
#include <algorithm>
#include <cmath>
#include <span>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/half.h"
#include "format/gguf_writer.h"

namespace meadow::format {

inline int clamped(float value, int low, int high) {
  return static_cast<int>(
      std::clamp(std::nearbyint(value), static_cast<float>(low), static_cast<float>(high)));
}

// The value of largest magnitude, with its sign; 0 for none.
inline float extreme(std::span<const float> values) {
  float found = 0;
  for (const float v : values)
    if (std::fabs(v) > std::fabs(found)) found = v;
  return found;
}
inline float largest_magnitude(std::span<const float> values) { return std::fabs(extreme(values)); }

// Appends the nearest half, which it returns.
inline float append_half(Bytes& out, float value) {
  const uint16_t bits = float_to_half(value);
  append(out, bits);
  return half_to_float(bits);
}

// A block of 256 values of Q2_K, Q3_K, Q4_K, Q5_K or Q6_K.    block: f32 [256]
void append_large_block(Bytes& out, DType type, std::span<const float> block);

}  // namespace meadow::format
