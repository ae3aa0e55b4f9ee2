#include "format/quantise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/half.h"
#include "base/rng.h"

namespace meadow::format {
namespace {

TEST(Quantise, FloatsAreRoundedToNearestEven) {
  const std::vector<float> values{1.00390625f, 1.01171875f, -2.5f, 0};  // ties of bf16, exact ones
  EXPECT_EQ(quantise(DType::kBF16, values), (Bytes{0x80, 0x3f, 0x82, 0x3f, 0x20, 0xc0, 0, 0}));
  const std::vector<float> tie{2049, 2051};  // ties of f16
  EXPECT_EQ(quantise(DType::kF16, tie), (Bytes{0x00, 0x68, 0x02, 0x68}));
}

float code_of(DType type, ByteView block, size_t i) {
  const auto half = [&](size_t at) {
    return half_to_float(static_cast<uint16_t>(block[at] | block[at + 1] << 8));
  };
  const size_t head = type == DType::kQ4_1 ? 4 : 2;
  if (type == DType::kQ8_0) return half(0) * static_cast<int8_t>(block[head + i]);
  const uint8_t pair = block[head + i % 16];
  const int code = i < 16 ? pair & 15 : pair >> 4;
  return type == DType::kQ4_0 ? half(0) * static_cast<float>(code - 8)
                              : half(0) * static_cast<float>(code) + half(2);
}

TEST(Quantise, BlocksStayWithinHalfAStep) {
  Rng rng(3);
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
    for (int round = 0; round < 50; round++) {
      std::vector<float> values(64);
      float largest = 0;
      for (float& v : values) {
        v = static_cast<float>(round == 0 ? 0 : (rng.uniform() - 0.3) * std::exp2(round % 30 - 20));
        largest = std::max(largest, std::fabs(v));
      }
      const Bytes bytes = quantise(type, values);
      ASSERT_EQ(bytes.size(), static_cast<size_t>(row_bytes(type, 64)));
      // Q4_0 cannot reach the far end on the side opposite to its extreme: a whole step there.
      const float step = type == DType::kQ8_0   ? largest / 127
                         : type == DType::kQ4_0 ? largest / 4
                                                : largest / 10;
      const float floor = std::exp2(-24.0f) * 64;  // scales are halves
      for (size_t i = 0; i < values.size(); i++) {
        const ByteView block = ByteView(bytes).subspan(i / 32 * bytes.size() / 2, bytes.size() / 2);
        EXPECT_NEAR(code_of(type, block, i % 32), values[i],
                    0.51f * step + floor + largest * 1e-3f);
      }
    }
  }
}

}  // namespace
}  // namespace meadow::format
