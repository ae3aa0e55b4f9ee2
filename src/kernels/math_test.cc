#include "kernels/math.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace meadow::kernels {
namespace {

// Distance to the true value in units of its last place.
double ulps(float got, long double want) {
  const float rounded = static_cast<float>(want);
  const float ulp = std::nextafter(std::fabs(rounded), INFINITY) - std::fabs(rounded);
  return static_cast<double>(std::fabs((got - want) / ulp));
}

TEST(Math, ExpIsWithinItsBound) {
  Rng rng(1);
  double worst = 0;
  for (int i = 0; i < 400'000; i++) {
    const float x = static_cast<float>(rng.uniform() * (88.72 + 87.3) - 87.3);
    worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<long double>(x))));
  }
  for (float x = -1e-3f; x < 1e-3f; x += 1.7e-8f)
    worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<long double>(x))));
  EXPECT_LE(worst, 1.1);
  RecordProperty("worst_ulps", std::to_string(worst));
}

TEST(Math, ExpAtItsEdges) {
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-87.4f), 0.0f);
  EXPECT_EQ(exp_f32(-INFINITY), 0.0f);
  EXPECT_EQ(exp_f32(89.0f), INFINITY);
  EXPECT_GE(exp_f32(-87.3f), std::numeric_limits<float>::min());
  EXPECT_TRUE(std::isfinite(exp_f32(88.72f)));
}

TEST(Math, ExpNeverFalls) {
  float last = 0;
  for (float x = -87.5f; x < 88.9f; x += 0.00037f) {
    const float e = exp_f32(x);
    EXPECT_GE(e, last) << x;
    last = e;
  }
}

TEST(Math, SiluIsCloseToTrue) {
  Rng rng(2);
  for (int i = 0; i < 100'000; i++) {
    const float x = static_cast<float>((rng.uniform() - 0.5) * 160);
    const long double want = x / (1.0L + std::exp(-static_cast<long double>(x)));
    EXPECT_LE(ulps(silu_f32(x), want), 3.0) << x;
  }
  EXPECT_EQ(silu_f32(0.0f), 0.0f);
  EXPECT_EQ(silu_f32(-200.0f), 0.0f);
  EXPECT_EQ(silu_f32(1e30f), 1e30f);
}

TEST(Math, SineAndCosineAreCorrectlyRoundedNearlyAlways) {
  Rng rng(3);
  int different = 0;
  for (int i = 0; i < 400'000; i++) {
    const double range = i % 2 == 0 ? 7.0 : 1 << 20;
    const float a = static_cast<float>((rng.uniform() - 0.5) * 2 * range);
    const SinCos got = sin_cos_f32(a);
    const long double sine = std::sin(static_cast<long double>(a));
    const long double cosine = std::cos(static_cast<long double>(a));
    // f64 throughout: at most the last step rounds the other way, once in millions.
    EXPECT_LE(ulps(got.sin, sine), 0.5001) << a;
    EXPECT_LE(ulps(got.cos, cosine), 0.5001) << a;
    different += got.sin != static_cast<float>(sine) || got.cos != static_cast<float>(cosine);
  }
  EXPECT_LE(different, 2);
  EXPECT_EQ(sin_cos_f32(0.0f).cos, 1.0f);
  EXPECT_EQ(sin_cos_f32(0.0f).sin, 0.0f);
}

}  // namespace
}  // namespace meadow::kernels
