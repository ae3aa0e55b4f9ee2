// Every target against the scalar definition, in every bit.
#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include "kernels/each_target.h"
#include "kernels/reference.h"
#include "kernels/test_data.h"

namespace meadow::kernels {
namespace {
using namespace test;

constexpr int64_t kTokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 130};

class MatmulOfType : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, MatmulOfType, testing::ValuesIn(kAllTypes),
                         [](const auto& i) { return std::string(meadow::info(i.param).name); });

struct Case {
  int64_t k, m, n;
  Values weights, activations;
};

// k any value for float types, any multiple of the block for quantised ones; m any.
Case draw_case(Rng& rng, DType type, int index) {
  Case c;
  const int64_t unit = info(type).block_values;
  const int most = unit == 1 ? 300 : (index % 9 == 0 ? 3200 : 384) / static_cast<int>(unit);
  c.k = unit * (1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(std::max(most, 3)))));
  c.m = 1 + static_cast<int64_t>(rng.below(index % 7 == 0 ? 300 : 90));
  c.n = kTokens[rng.below(std::size(kTokens))];
  c.weights = kAllValues[index % 5];
  c.activations = kAllValues[index / 5 % 5];
  return c;
}

TEST_P(MatmulOfType, EveryTargetAndThreadCountGivesTheReferencesBits) {
  Rng rng(77 + static_cast<uint64_t>(GetParam()));
  ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  Scratch scratch;
  for (int i = 0; i < 75; i++) {
    const Case c = draw_case(rng, GetParam(), i);
    SCOPED_TRACE(fmt::format("case {}: k {} m {} n {}", i, c.k, c.m, c.n));
    const auto w = weights(rng, GetParam(), c.k, c.m, c.weights);
    const auto x = floats(rng, c.k * c.n, c.activations);
    std::vector<float> want(static_cast<size_t>(c.m * c.n));
    reference::matmul(w.matrix, x.data(), c.n, want.data());
    on_each_target([&] {
      std::vector<float> got(want.size(), NAN);
      matmul(w.matrix, x.data(), c.n, got.data(), pools[i % 3], scratch);
      EXPECT_EQ(difference(got, want), "");
    });
    if (HasFailure()) return;
  }
}

// Rows longer than a piece, more tokens and rows than are taken at once.
TEST_P(MatmulOfType, LargeShapesGiveTheReferencesBits) {
  Rng rng(78);
  ThreadPool pool(2);
  Scratch scratch;
  struct Shape {
    int64_t k, m, n;
  };
  for (const Shape s : {Shape{5000, 9, 7}, Shape{1500, 131, 29}, Shape{2100, 6, 300}}) {
    const int64_t unit = info(GetParam()).block_values, k = s.k / unit * unit;
    SCOPED_TRACE(fmt::format("k {} m {} n {}", k, s.m, s.n));
    const auto w = weights(rng, GetParam(), k, s.m, Values::kOrdinary);
    const auto x = floats(rng, k * s.n, Values::kMixed);
    std::vector<float> want(static_cast<size_t>(s.m * s.n));
    reference::matmul(w.matrix, x.data(), s.n, want.data());
    on_each_target([&] {
      if (active_target() == Target::kScalar) return;
      std::vector<float> got(want.size(), NAN);
      matmul(w.matrix, x.data(), s.n, got.data(), pool, scratch);
      EXPECT_EQ(difference(got, want), "");
    });
  }
}

TEST_P(MatmulOfType, ABatchEqualsItsTokensAlone) {
  Rng rng(5);
  ThreadPool pool(2);
  Scratch scratch;
  const int64_t k = std::max<int64_t>(352, 3 * info(GetParam()).block_values), m = 75, n = 13;
  const auto w = weights(rng, GetParam(), k, m, Values::kOrdinary);
  const auto x = floats(rng, k * n);
  on_each_target([&] {
    std::vector<float> batch(static_cast<size_t>(m * n)), alone(static_cast<size_t>(m));
    matmul(w.matrix, x.data(), n, batch.data(), pool, scratch);
    for (int64_t t = 0; t < n; t++) {
      matmul(w.matrix, x.data() + t * k, 1, alone.data(), pool, scratch);
      EXPECT_EQ(difference({batch.data() + t * m, static_cast<size_t>(m)}, alone), "");
    }
  });
}

// The largest integers that the format and the activations allow must not overflow a partial sum,
// nor may the sub-scales' sums: every pattern of quants meets every pattern of sub-scales.
TEST_P(MatmulOfType, ExtremeIntegersAreExact) {
  const DType type = GetParam();
  const DTypeInfo& t = info(type);
  if (t.block_values == 1) return;
  ThreadPool pool(1);
  Scratch scratch;
  const int64_t k = 2 * t.block_values, m = 37;
  const ScalePlaces places = scale_places(type);
  for (uint8_t pattern : {0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0})
    for (uint8_t scales : {0x00, 0xff, 0x80, 0x7f, 0x0f})
      for (float sign : {1.0f, -1.0f})
        for (int64_t n : {1, 13}) {
          if (places.sub_scale_bytes == 0 && scales != 0) continue;
          SCOPED_TRACE(fmt::format("{:x} {:x} {} {}", pattern, scales, sign, n));
          Rng rng(9);
          Weights w{std::vector<uint8_t>(static_cast<size_t>(m * row_bytes(type, k)), pattern), {}};
          w.matrix = {type, w.bytes.data(), k, m};
          for (int64_t b = 0; b < 2 * m; b++) {
            uint8_t* block = w.bytes.data() + b * t.block_bytes;
            std::fill_n(block + std::max(places.sub_scales, 0), places.sub_scale_bytes, scales);
            set_scales(type, block, normal(rng), normal(rng));
          }
          const std::vector<float> x(static_cast<size_t>(k * n), 3.25f * sign);
          std::vector<float> want(static_cast<size_t>(m * n)), got(want.size());
          reference::matmul(w.matrix, x.data(), n, want.data());
          on_each_target([&] {
            matmul(w.matrix, x.data(), n, got.data(), pool, scratch);
            EXPECT_EQ(difference(got, want), "");
          });
        }
}

TEST(Matmul, NothingIsDoneForNothing) {
  ThreadPool pool(2);
  Scratch scratch;
  on_each_target([&] {
    const Matrix empty{DType::kQ4_0, nullptr, 64, 0};
    matmul(empty, nullptr, 3, nullptr, pool, scratch);
    const Matrix some{DType::kF32, nullptr, 8, 8};
    matmul(some, nullptr, 0, nullptr, pool, scratch);
    float y[2] = {1, 1};
    matmul({DType::kF32, nullptr, 0, 2}, nullptr, 1, y, pool, scratch);
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_EQ(y[1], 0.0f);
  });
}

}  // namespace
}  // namespace meadow::kernels
