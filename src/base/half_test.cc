#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace meadow {
namespace {

TEST(Half, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t h = 0; h < 65536; h++) {
    const float f = half_to_float(static_cast<uint16_t>(h));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(f))));
    } else {
      ASSERT_EQ(float_to_half(f), h);
    }
  }
}

// Between two neighbouring halves: below the middle goes down, above goes up, the middle to even.
TEST(Half, RoundsToNearestEven) {
  for (uint16_t h = 0; h < 0x7bff; h++) {
    const double low = half_to_float(h), high = half_to_float(h + 1);
    const float middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(float_to_half(middle), h % 2 == 0 ? h : h + 1);
    ASSERT_EQ(float_to_half(std::nextafterf(middle, 0)), h);
    ASSERT_EQ(float_to_half(std::nextafterf(middle, INFINITY)), h + 1);
    ASSERT_EQ(float_to_half(-middle), (h % 2 == 0 ? h : h + 1) | 0x8000);
  }
}

TEST(Half, ValuesAreThoseOfTheFormat) {
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(half_to_float(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(half_to_float(0x0400), 0x1p-14f);
  EXPECT_EQ(half_to_float(0xc000), -2.0f);
  EXPECT_EQ(half_to_float(0x7bff), 65504.0f);
}

TEST(Half, Edges) {
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(bfloat_to_float(0x3f80), 1.0f);
}

}  // namespace
}  // namespace meadow
