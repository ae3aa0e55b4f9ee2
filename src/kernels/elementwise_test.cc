// Every target against the scalar definition, in every bit.
#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include "kernels/each_target.h"
#include "kernels/reference.h"
#include "kernels/test_data.h"

namespace meadow::kernels {
namespace {
using namespace test;

template <class Body>
void for_cases(uint64_t seed, int cases, Body body) {
  Rng rng(seed);
  for (int i = 0; i < cases; i++) {
    SCOPED_TRACE("case " + std::to_string(i));
    body(rng, kAllValues[i % 5]);
  }
}

TEST(Elementwise, RmsNorm) {
  for_cases(1, 100, [](Rng& rng, Values values) {
    const int64_t d = 1 + static_cast<int64_t>(rng.below(150)),
                  n = 1 + static_cast<int64_t>(rng.below(4));
    const auto x = floats(rng, d * n, values == Values::kHuge ? Values::kOrdinary : values);
    const auto w = floats(rng, d);
    std::vector<float> want(x.size());
    reference::rms_norm(x.data(), w.data(), 1e-5f, d, n, want.data());
    on_each_target([&] {
      std::vector<float> got = x;
      rms_norm(got.data(), w.data(), 1e-5f, d, n, got.data());
      EXPECT_EQ(difference(got, want), "");
    });
  });
}

TEST(Elementwise, SiluMul) {
  for_cases(2, 100, [](Rng& rng, Values values) {
    const int64_t count = static_cast<int64_t>(rng.below(200));
    auto gate = floats(rng, count, values);
    for (float& g : gate) g *= 30;
    const auto up = floats(rng, count);
    std::vector<float> want(gate.size());
    reference::silu_mul(gate.data(), up.data(), count, want.data());
    on_each_target([&] {
      std::vector<float> got = gate;
      silu_mul(got.data(), up.data(), count, got.data());
      EXPECT_EQ(difference(got, want), "");
    });
  });
}

TEST(Elementwise, Additions) {
  for_cases(3, 60, [](Rng& rng, Values values) {
    const int64_t d = 1 + static_cast<int64_t>(rng.below(90)),
                  n = 1 + static_cast<int64_t>(rng.below(4));
    const auto a = floats(rng, d * n, values), b = floats(rng, d * n);
    std::vector<float> sum(a.size()), rows = a;
    reference::add(a.data(), b.data(), d * n, sum.data());
    reference::add_rows(rows.data(), b.data(), d, n);
    on_each_target([&] {
      std::vector<float> got(a.size());
      add(a.data(), b.data(), d * n, got.data());
      EXPECT_EQ(difference(got, sum), "");
      got = a;
      add_rows(got.data(), b.data(), d, n);
      EXPECT_EQ(difference(got, rows), "");
    });
  });
}

TEST(Elementwise, Rope) {
  for_cases(4, 100, [](Rng& rng, Values values) {
    const int64_t half = 1 + static_cast<int64_t>(rng.below(40)),
                  n = 1 + static_cast<int64_t>(rng.below(4));
    const int64_t head_dim = 2 * half + static_cast<int64_t>(rng.below(9)), n_head = 3;
    std::vector<float> inv_freq;
    for (int64_t i = 0; i < half; i++)
      inv_freq.push_back(std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(half)));
    const auto x = floats(rng, head_dim * n_head * n, values);
    const auto first = static_cast<int64_t>(rng.below(100'000));
    for (RopeStyle style : {RopeStyle::kNeighbours, RopeStyle::kHalves}) {
      std::vector<float> want = x;
      reference::rope(want.data(), head_dim, n_head, RopeTable(first, n, inv_freq), style);
      on_each_target([&] {
        std::vector<float> got = x;
        rope(got.data(), head_dim, 2 * half, n_head, n, first, inv_freq.data(), style);
        EXPECT_EQ(difference(got, want), "");
      });
    }
  });
}

}  // namespace
}  // namespace meadow::kernels
