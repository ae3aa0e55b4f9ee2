// Every target against the scalar definition, in every bit.
#include "kernels/experts.h"

#include <gtest/gtest.h>

#include "kernels/each_target.h"
#include "kernels/reference.h"
#include "kernels/test_data.h"

namespace meadow::kernels {
namespace {
using namespace test;

class ExpertsOfType : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, ExpertsOfType, testing::ValuesIn(kAllTypes),
                         [](const auto& i) { return std::string(meadow::info(i.param).name); });

TEST_P(ExpertsOfType, EveryTargetAndThreadCountGivesTheReferencesBits) {
  Rng rng(40 + static_cast<uint64_t>(GetParam()));
  ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  Scratch scratch;
  constexpr int64_t kTokens[] = {1, 2, 5, 19, 40};
  for (int i = 0; i < 20; i++) {
    const int64_t unit = info(GetParam()).block_values;
    const int64_t k = unit * (1 + static_cast<int64_t>(rng.below(unit == 1 ? 90 : 2)));
    const int64_t m = 1 + static_cast<int64_t>(rng.below(i % 4 == 0 ? 300 : 40));
    const int64_t n_expert = 1 + static_cast<int64_t>(rng.below(9));
    const int64_t n_used = 1 + static_cast<int64_t>(rng.below(4));
    const int64_t n = kTokens[i % 5], x_per_token = i % 2 == 0 ? 1 : n_used;
    SCOPED_TRACE(fmt::format("case {}: k {} m {} experts {} of {} n {} x {}", i, k, m, n_used,
                             n_expert, n, x_per_token));
    const auto w = weights(rng, GetParam(), k, m * n_expert, kAllValues[i % 5]);
    const Experts experts{GetParam(), w.bytes.data(), k, m, n_expert};
    const auto x = floats(rng, k * x_per_token * n);
    std::vector<int32_t> ids(static_cast<size_t>(n_used * n));
    for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(n_expert)));
    std::vector<float> want(static_cast<size_t>(m * n_used * n));
    reference::matmul_experts(experts, ids, n_used, x.data(), x_per_token, want.data());
    on_each_target([&] {
      std::vector<float> got(want.size(), NAN);
      matmul_experts(experts, ids, n_used, x.data(), x_per_token, got.data(), pools[i % 3],
                     scratch);
      EXPECT_EQ(difference(got, want), "");
    });
    if (HasFailure()) return;
  }
}

TEST(Experts, SumsInAscendingOrder) {
  Rng rng(8);
  for (Values values : kAllValues) {
    const int64_t m = 77, n_used = 5, n = 3;
    const auto y = floats(rng, m * n_used * n, values);
    const auto factors = floats(rng, n_used * n);
    std::vector<float> want(static_cast<size_t>(m * n));
    reference::sum_experts(y.data(), factors.data(), m, n_used, n, want.data());
    on_each_target([&] {
      std::vector<float> got(want.size(), NAN);
      sum_experts(y.data(), factors.data(), m, n_used, n, got.data());
      EXPECT_EQ(difference(got, want), "");
    });
  }
}

TEST(Experts, AnExpertThatIsNotThereIsABrokenInvariant) {
  ThreadPool pool(1);
  Scratch scratch;
  const float w[4] = {1, 2, 3, 4}, x[2] = {1, 1};
  float y[1];
  const Experts experts{DType::kF32, reinterpret_cast<const uint8_t*>(w), 2, 1, 2};
  for (int32_t id : {-1, 2})
    EXPECT_DEATH(matmul_experts(experts, std::array{id}, 1, x, 1, y, pool, scratch), "");
}

}  // namespace
}  // namespace meadow::kernels
