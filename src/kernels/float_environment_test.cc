// Arithmetic modes that another library left behind must not reach a result.
#include "kernels/float_environment.h"

#include <gtest/gtest.h>

#include "kernels/dequantise.h"
#include "kernels/each_target.h"
#include "kernels/reference.h"
#include "kernels/test_data.h"

namespace meadow::kernels {
namespace {
using namespace test;

// Flush to zero, in and out, and rounding towards zero.
void spoil() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8000 | 0x0040 | 0x6000);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(uint64_t{1} << 24 | uint64_t{3} << 22));
#endif
}

TEST(FloatEnvironment, IsSetOnEveryThreadThatComputes) {
  Rng rng(1);
  const int64_t k = 96, m = 200, n = 7;
  const auto tiny = weights(rng, DType::kF32, k, m, Values::kTiny);
  const auto small = weights(rng, DType::kQ4_1, k, m, Values::kMixed);
  const auto x = floats(rng, k * n), subnormal = floats(rng, k, Values::kTiny);
  std::vector<float> want_tiny(static_cast<size_t>(m * n)), want_small(want_tiny.size());
  std::vector<float> want_sum(subnormal.size()), want_silu(x.size());
  reference::matmul(tiny.matrix, x.data(), n, want_tiny.data());
  reference::matmul(small.matrix, x.data(), n, want_small.data());
  reference::add(subnormal.data(), subnormal.data(), k, want_sum.data());
  reference::silu_mul(x.data(), x.data(), k * n, want_silu.data());
  on_each_target([&] {
    std::vector<float> got(want_tiny.size()), sum(want_sum.size()), silu(x.size());
    Scratch scratch;
    spoil();
    ThreadPool pool(3);  // its threads inherit the modes of this one
    matmul(tiny.matrix, x.data(), n, got.data(), pool, scratch);
    EXPECT_EQ(difference(got, want_tiny), "");
    spoil();
    matmul(small.matrix, x.data(), n, got.data(), pool, scratch);
    EXPECT_EQ(difference(got, want_small), "");
    spoil();
    add(subnormal.data(), subnormal.data(), k, sum.data());
    EXPECT_EQ(difference(sum, want_sum), "");
    spoil();
    silu_mul(x.data(), x.data(), k * n, silu.data());
    EXPECT_EQ(difference(silu, want_silu), "");
  });
  use_ieee_arithmetic();
}

}  // namespace
}  // namespace meadow::kernels
