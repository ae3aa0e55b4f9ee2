#include "kernels/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"

namespace meadow::kernels {
namespace {

TEST(Half, EveryHalfSurvivesARoundTrip) {
  for (uint32_t h = 0; h < 0x10000; h++) {
    const float f = f16_to_f32(static_cast<uint16_t>(h));
    if (std::isnan(f)) {
      EXPECT_EQ(h & 0x7c00, 0x7c00u);
      continue;
    }
    EXPECT_EQ(f32_to_f16(f), h);
  }
}

TEST(Half, ValuesAreThoseOfTheFormat) {
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0x0400), 0x1p-14f);
  EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_f32(0xc000), -2.0f);
  EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
  EXPECT_TRUE(std::signbit(f16_to_f32(0x8000)));
  EXPECT_EQ(bf16_to_f32(0x3f80), 1.0f);
}

// Against the neighbours: the nearest half, the even one of two equally near.
TEST(Half, NarrowingRoundsToNearestEven) {
  Rng rng(4);
  for (int i = 0; i < 300'000; i++) {
    const auto low = static_cast<uint16_t>(rng.below(0x7bff));
    const double a = f16_to_f32(low), b = f16_to_f32(static_cast<uint16_t>(low + 1));
    const auto x = static_cast<float>(i % 3 == 0 ? (a + b) / 2 : a + (b - a) * rng.uniform());
    const double to_a = x - a, to_b = b - x;
    const bool up = to_b < to_a || (to_b == to_a && low % 2 == 1);
    EXPECT_EQ(f32_to_f16(x), low + (up ? 1 : 0)) << x;
    EXPECT_EQ(f32_to_f16(-x), (low + (up ? 1 : 0)) | 0x8000) << x;
  }
}

TEST(Half, OverflowIsInfinity) {
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(1e30f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(f32_to_f16(0x1p-26f), 0);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
}

}  // namespace
}  // namespace meadow::kernels
