// The products of the backward: every target against the scalar definition, in every bit, and the
// definition against the slope of the forward product.
#include <gtest/gtest.h>

#include "kernels/dequantise.h"
#include "kernels/each_target.h"
#include "kernels/matmul.h"
#include "kernels/reference.h"
#include "kernels/test_data.h"

namespace meadow::kernels {
namespace {
using namespace test;

class TransposedOfType : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, TransposedOfType, testing::ValuesIn(kAllTypes),
                         [](const auto& i) { return std::string(meadow::info(i.param).name); });

TEST_P(TransposedOfType, EveryTargetAndThreadCountGivesTheReferencesBits) {
  Rng rng(99 + static_cast<uint64_t>(GetParam()));
  ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  Scratch scratch;
  constexpr int64_t kTokens[] = {1, 2, 3, 7, 13, 29};
  for (int i = 0; i < 25; i++) {
    const int64_t unit = info(GetParam()).block_values;
    const int64_t k = unit * (1 + static_cast<int64_t>(rng.below(unit == 1 ? 200 : 3)));
    const int64_t m = 1 + static_cast<int64_t>(rng.below(i % 6 == 0 ? 400 : 70));
    const int64_t n = kTokens[rng.below(std::size(kTokens))];
    SCOPED_TRACE(fmt::format("case {}: k {} m {} n {}", i, k, m, n));
    const auto w = weights(rng, GetParam(), k, m, kAllValues[i % 5]);
    const auto y = floats(rng, m * n, kAllValues[i / 5 % 5]);
    std::vector<float> want(static_cast<size_t>(k * n));
    reference::matmul_transposed(w.matrix, y.data(), n, want.data());
    on_each_target([&] {
      std::vector<float> got(want.size(), NAN);
      matmul_transposed(w.matrix, y.data(), n, got.data(), pools[i % 3], scratch);
      EXPECT_EQ(difference(got, want), "");
    });
    if (HasFailure()) return;
  }
}

// More rows than a piece, more tokens than are taken at once.
TEST(Transposed, LargeShapesGiveTheReferencesBits) {
  Rng rng(6);
  ThreadPool pool(2);
  Scratch scratch;
  struct Shape {
    int64_t k, m, n;
  };
  for (const Shape s : {Shape{70, 2500, 5}, Shape{130, 1501, 30}, Shape{5, 900, 300}}) {
    SCOPED_TRACE(fmt::format("k {} m {} n {}", s.k, s.m, s.n));
    const auto w = weights(rng, DType::kBF16, s.k, s.m, Values::kOrdinary);
    const auto y = floats(rng, s.m * s.n, Values::kMixed);
    std::vector<float> want(static_cast<size_t>(s.k * s.n));
    reference::matmul_transposed(w.matrix, y.data(), s.n, want.data());
    on_each_target([&] {
      std::vector<float> got(want.size(), NAN);
      matmul_transposed(w.matrix, y.data(), s.n, got.data(), pool, scratch);
      EXPECT_EQ(difference(got, want), "");
    });
  }
}

// The slope of f(x) = Σ g · (W x) along any direction u is (Wᵀ g) · u; for float weights f is
// linear, so the difference of two values of f is that slope but for rounding.
TEST(Transposed, IsTheSlopeOfTheForwardProduct) {
  Rng rng(7);
  ThreadPool pool(2);
  Scratch scratch;
  const int64_t k = 83, m = 57;
  const auto w = weights(rng, DType::kF32, k, m, Values::kOrdinary);
  const auto x = floats(rng, k), u = floats(rng, k), g = floats(rng, m);
  const auto f = [&](float step) {
    std::vector<float> at(x), y(static_cast<size_t>(m));
    for (size_t i = 0; i < at.size(); i++) at[i] += step * u[i];
    matmul(w.matrix, at.data(), 1, y.data(), pool, scratch);
    double sum = 0;
    for (size_t i = 0; i < y.size(); i++) sum += static_cast<double>(g[i]) * y[i];
    return sum;
  };
  std::vector<float> gradient(static_cast<size_t>(k));
  matmul_transposed(w.matrix, g.data(), 1, gradient.data(), pool, scratch);
  double slope = 0;
  for (size_t i = 0; i < gradient.size(); i++) slope += static_cast<double>(gradient[i]) * u[i];
  EXPECT_NEAR((f(0.5f) - f(-0.5f)) / slope, 1, 1e-3);
}

TEST(Transposed, NothingIsDoneForNothing) {
  ThreadPool pool(2);
  Scratch scratch;
  on_each_target([&] {
    matmul_transposed({DType::kQ4_0, nullptr, 0, 5}, nullptr, 3, nullptr, pool, scratch);
    matmul_transposed({DType::kF32, nullptr, 8, 8}, nullptr, 0, nullptr, pool, scratch);
    float x[2] = {1, 1};
    matmul_transposed({DType::kF32, nullptr, 2, 0}, nullptr, 1, x, pool, scratch);
    EXPECT_EQ(x[0], 0.0f);
    EXPECT_EQ(x[1], 0.0f);
  });
}

}  // namespace
}  // namespace meadow::kernels
