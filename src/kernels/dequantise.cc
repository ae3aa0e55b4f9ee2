#include "kernels/dequantise.h"

#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "kernels/reference.h"
#include "kernels/table.h"
#include "kernels/weight_block.h"

namespace meadow::kernels {
namespace {

uint16_t read_u16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }

// Products of a half (or a power of two) and the integers of any type have at most 23 bits, so they
// are exact, subnormal ones too; only the addition of a minimum rounds.
void quantised_row(DType type, const uint8_t* row, int64_t k, float* out) {
  for (int64_t b = 0; b < k / 32; b++, out += 32) {
    const WeightBlock w = weight_block(type, row, b);
    for (int h = 0; h < 2; h++) {
      const float d = w.d * static_cast<float>(w.scale[h]);
      const float m = w.m * static_cast<float>(w.minimum[h]);
      for (int i = 16 * h; i < 16 * h + 16; i++) {
        out[i] = d * static_cast<float>(w.q[i]);
        if (has_minimum(type)) out[i] += m;
      }
    }
  }
}

}  // namespace

namespace reference {

void dequantise_row(DType type, const uint8_t* row, int64_t k, float* out) {
  MEADOW_CHECK(k % info(type).block_values == 0);
  switch (type) {
    case DType::kF32:
      if (k > 0) std::memcpy(out, row, static_cast<size_t>(k) * 4);
      return;
    case DType::kF16:
      for (int64_t i = 0; i < k; i++) out[i] = half_to_float(read_u16(row + 2 * i));
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < k; i++) out[i] = bfloat_to_float(read_u16(row + 2 * i));
      return;
    default:
      return quantised_row(type, row, k, out);
  }
}

}  // namespace reference

void dequantise_row(DType type, const uint8_t* row, int64_t k, float* out) {
  MEADOW_CHECK(k % info(type).block_values == 0);
  active_table().dequantise_row(type, row, k, out);
}

}  // namespace meadow::kernels
