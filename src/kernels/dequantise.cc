#include "kernels/dequantise.h"

#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "kernels/float_environment.h"

namespace meadow::kernels {
namespace {

uint16_t read_u16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }

// One block of 32 values each.
void q8_0(const uint8_t* block, float* out) {
  const float d = half_to_float(read_u16(block));
  for (int i = 0; i < 32; i++) out[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * d;
}
void q4_0(const uint8_t* block, float* out) {
  const float d = half_to_float(read_u16(block));
  for (int i = 0; i < 16; i++) {
    out[i] = static_cast<float>((block[2 + i] & 15) - 8) * d;
    out[i + 16] = static_cast<float>((block[2 + i] >> 4) - 8) * d;
  }
}
void q4_1(const uint8_t* block, float* out) {
  const float d = half_to_float(read_u16(block)), m = half_to_float(read_u16(block + 2));
  for (int i = 0; i < 16; i++) {
    out[i] = static_cast<float>(block[4 + i] & 15) * d + m;
    out[i + 16] = static_cast<float>(block[4 + i] >> 4) * d + m;
  }
}

}  // namespace

void dequantise_row(DType type, const uint8_t* row, int64_t k, float* out) {
  const DTypeInfo& t = info(type);
  MEADOW_CHECK(k % t.block_values == 0);
  use_ieee_arithmetic();
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
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1: {
      const auto decode = type == DType::kQ8_0 ? q8_0 : type == DType::kQ4_0 ? q4_0 : q4_1;
      for (int64_t b = 0; b < k / 32; b++) decode(row + b * t.block_bytes, out + b * 32);
      return;
    }
  }
}

}  // namespace meadow::kernels
