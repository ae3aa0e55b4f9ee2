#include "format/quantise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace meadow::format {
namespace {

TEST(Quantise, HalfRoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    const float value = from_f16_bits(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(from_f16_bits(f16_bits(value))));
    } else {
      ASSERT_EQ(f16_bits(value), bits);
    }
  }
}

TEST(Quantise, HalfRoundsToNearestEven) {
  // Between each two neighbours: a hair below, at and above the middle.
  for (uint16_t bits = 0; bits < 0x7bff; bits++) {
    const float low = from_f16_bits(bits), high = from_f16_bits(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    ASSERT_EQ(f16_bits(middle), bits + (bits & 1));
    ASSERT_EQ(f16_bits(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(f16_bits(std::nextafter(middle, 1e9f)), bits + 1);
  }
  EXPECT_EQ(f16_bits(65519.99f), 0x7bff);
  EXPECT_EQ(f16_bits(65520.0f), 0x7c00);
  EXPECT_EQ(f16_bits(-1e30f), 0xfc00);
  EXPECT_EQ(bf16_bits(1.00390625f), 0x3f80);  // a tie: to even
  EXPECT_EQ(bf16_bits(1.01171875f), 0x3f82);
}

float code_of(DType type, ByteView block, size_t i) {
  const auto half = [&](size_t at) {
    return from_f16_bits(static_cast<uint16_t>(block[at] | block[at + 1] << 8));
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
