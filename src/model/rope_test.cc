#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compute/cpu_ops.h"
#include "model/testing/test_model.h"

namespace meadow::model {
namespace {

Hyperparameters with(float base, int64_t n_rot, float scale = 1) {
  Hyperparameters h;
  h.rope_base = base, h.n_rot = n_rot, h.rope_scale = scale, h.n_ctx = 4096;
  return h;
}

TEST(InverseFrequencies, ArePowersOfTheBase) {
  for (float base : {1.0f, 2.0f, 10000.0f, 100000.0f, 1e6f})
    for (int64_t n_rot : {2, 10, 64, 128, 256})
      for (float scale : {1.0f, 4.0f}) {
        const auto f = inverse_frequencies(with(base, n_rot, scale), {});
        ASSERT_TRUE(f);
        ASSERT_EQ(f->size(), static_cast<size_t>(n_rot / 2));
        for (size_t i = 0; i < f->size(); i++) {
          const double exact =
              std::pow(double{base}, -2.0 * static_cast<double>(i) / static_cast<double>(n_rot)) /
              scale;
          // half a unit in the last place, and a little for the two computations
          EXPECT_NEAR((*f)[i], exact, exact * 0x1.01p-24) << base << " " << n_rot << " " << i;
        }
      }
}

TEST(InverseFrequencies, FactorsDivide) {
  const std::vector<float> factors = {1.0f, 2.0f, 8.0f};
  const auto plain = inverse_frequencies(with(500000.0f, 6), {});
  const auto divided = inverse_frequencies(with(500000.0f, 6), factors);
  ASSERT_TRUE(plain && divided);
  for (size_t i = 0; i < 3; i++) EXPECT_EQ((*divided)[i], (*plain)[i] / factors[i]);
}

TEST(InverseFrequencies, RefuseImpossibleFactors) {
  for (float bad : {0.0f, -1.0f, std::nanf(""), std::numeric_limits<float>::infinity(), 1e-6f}) {
    const auto f = inverse_frequencies(with(10000.0f, 4), std::vector<float>{bad, 1.0f});
    ASSERT_FALSE(f) << bad;
    EXPECT_EQ(f.error().code, Code::kCorrupt);
  }
}

TEST(InverseFrequencies, OfAFile) {
  testing::TestModel m;
  m.rope_factors = true;
  const auto file = testing::make_file(m);
  compute::CpuOps ops(1);
  Loader loader(*file, ops);
  const auto h = hyperparameters(*file);
  ASSERT_TRUE(h);
  EXPECT_EQ(load_inverse_frequencies(loader, ops, *h)->k, 16);
  EXPECT_EQ(file->weight_bytes_touched(), 64u);
  m.corrupt = "rope_freqs.weight";
  const auto bad = testing::make_file(m);
  Loader other(*bad, ops);
  EXPECT_FALSE(load_inverse_frequencies(other, ops, *h));
}

}  // namespace
}  // namespace meadow::model
