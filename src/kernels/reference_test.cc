// The definition against plain mathematics in long double.
#include "kernels/reference.h"

#include <gtest/gtest.h>

#include "kernels/dequantise.h"
#include "kernels/math.h"
#include "kernels/test_data.h"
#include "kernels/weight_block.h"

namespace meadow::kernels {
namespace {
using namespace test;

TEST(Reference, QuantisedActivationsAreWithinHalfAStep) {
  Rng rng(1);
  for (int32_t limit : {127, 32767})
    for (int round = 0; round < 500; round++) {
      const auto x = floats(rng, 32, round % 2 == 0 ? Values::kOrdinary : Values::kMixed);
      const auto a = reference::quantise_activations(x.data(), limit);
      for (size_t i = 0; i < 32; i++) {
        EXPECT_LE(std::abs(a.q[i]), limit);
        EXPECT_LE(std::fabs(a.q[i] * static_cast<double>(a.d) - x[i]), a.d * 0.503);
      }
    }
}

TEST(Reference, ActivationsWithoutANormalScaleAreZero) {
  std::vector<float> x(32, 0x1p-127f);
  const auto a = reference::quantise_activations(x.data(), 127);
  EXPECT_EQ(a.d, 0.0f);
  EXPECT_EQ(a.q[5], 0);
}

TEST(Reference, TiesRoundToEven) {
  std::vector<float> x(32);
  x[0] = 127, x[1] = 0.5f, x[2] = 1.5f, x[3] = -2.5f;
  const auto a = reference::quantise_activations(x.data(), 127);
  EXPECT_EQ(a.q[0], 127);
  EXPECT_EQ(a.q[1], 0);
  EXPECT_EQ(a.q[2], 2);
  EXPECT_EQ(a.q[3], -2);
}

TEST(Reference, DotMergesItsChainsByHalving) {
  // Chains of very different size: only the stated order gives this value.
  const std::vector<float> a = {1e8f, 1, 1, 1, -1e8f, 1, 1, 1, 3};
  const std::vector<float> one(9, 1.0f);
  // c0 = 1e8 + 3 rounds to 1e8; c0 + c4 = 0; the rest is exact.
  EXPECT_EQ(reference::dot(a.data(), one.data(), 9), 6.0f);
}

TEST(Reference, MatmulIsCloseToTheDequantisedProduct) {
  Rng rng(2);
  for (DType type : kAllTypes) {
    const int64_t k = 768, m = 9, n = 3;
    const auto w = weights(rng, type, k, m, Values::kOrdinary);
    const auto x = floats(rng, k * n);
    std::vector<float> y(static_cast<size_t>(m * n)), row(static_cast<size_t>(k));
    reference::matmul(w.matrix, x.data(), n, y.data());
    for (int64_t r = 0; r < m; r++) {
      dequantise_row(type, w.bytes.data() + r * row_bytes(type, k), k, row.data());
      for (int64_t t = 0; t < n; t++) {
        long double want = 0, norm = 0;
        for (int64_t i = 0; i < k; i++) {
          const long double p = static_cast<long double>(row[i]) * x[t * k + i];
          want += p, norm += p * p;
        }
        const double allowed = info(type).block_values == 1 ? 1e-6
                               : type == DType::kQ8_0       ? 5e-4
                                                            : 0.1;
        EXPECT_LE(std::fabs(y[t * m + r] - want), allowed * std::sqrt(norm)) << info(type).name;
      }
    }
  }
}

TEST(Reference, RmsNormSiluRopeAreCloseToTrue) {
  Rng rng(3);
  const auto x = floats(rng, 77), w = floats(rng, 77);
  std::vector<float> y(77);
  reference::rms_norm(x.data(), w.data(), 1e-5f, 77, 1, y.data());
  long double squares = 0;
  for (float v : x) squares += static_cast<long double>(v) * v;
  for (size_t i = 0; i < 77; i++)
    EXPECT_NEAR(y[i], static_cast<double>(x[i] / std::sqrt(squares / 77 + 1e-5L) * w[i]), 2e-6);

  for (RopeStyle style : {RopeStyle::kNeighbours, RopeStyle::kHalves}) {
    auto head = floats(rng, 10);
    const auto before = head;
    const float inv_freq[3] = {1.0f, 0.1f, 0.01f};
    reference::rope(head.data(), 10, 1, RopeTable(1000, 1, inv_freq), style);
    for (size_t i = 0; i < 3; i++) {
      const size_t a = style == RopeStyle::kNeighbours ? 2 * i : i;
      const size_t b = style == RopeStyle::kNeighbours ? 2 * i + 1 : i + 3;
      const double angle = 1000.0f * inv_freq[i];
      EXPECT_NEAR(head[a], before[a] * std::cos(angle) - before[b] * std::sin(angle), 1e-6);
      EXPECT_NEAR(head[b], before[a] * std::sin(angle) + before[b] * std::cos(angle), 1e-6);
    }
    for (size_t i = 6; i < 10; i++) EXPECT_EQ(head[i], before[i]);
  }
}

TEST(Reference, AttentionIsCloseToSoftmax) {
  Rng rng(4);
  const PageShape shape{DType::kF32, 20, 2};
  const int64_t n = 2100, n_head = 4;
  const auto k = floats(rng, 40 * n), v = floats(rng, 40 * n), q = floats(rng, 80);
  Pages pages(shape, n);
  ASSERT_TRUE(store_kv(shape, pages.writable(), 0, n, k.data(), v.data()));
  for (int64_t position : {0, 1, 63, 64, 1023, 1024, 2099}) {
    std::vector<float> out(80);
    reference::attention(shape, pages.readable(), position, 1, q.data(), n_head, 0.25f, out.data());
    for (int64_t h = 0; h < n_head; h++) {
      std::vector<long double> p;
      long double sum = 0;
      for (int64_t s = 0; s <= position; s++) {
        long double dot = 0;
        for (int64_t i = 0; i < 20; i++)
          dot += static_cast<long double>(q[h * 20 + i]) * k[s * 40 + h / 2 * 20 + i];
        p.push_back(std::exp(dot * 0.25L));
        sum += p.back();
      }
      for (int64_t i = 0; i < 20; i++) {
        long double want = 0;
        for (int64_t s = 0; s <= position; s++) want += p[s] / sum * v[s * 40 + h / 2 * 20 + i];
        EXPECT_NEAR(out[h * 20 + i], static_cast<double>(want), 2e-6) << position;
      }
    }
  }
}

TEST(StoreKv, OverflowOfTheTypeIsRefused) {
  const PageShape shape{DType::kF16, 4, 1};
  Pages pages(shape, 1);
  std::vector<float> k(4, 1.0f), v(4, 1.0f);
  EXPECT_TRUE(store_kv(shape, pages.writable(), 0, 1, k.data(), v.data()));
  v[3] = 65520;
  const auto result = store_kv(shape, pages.writable(), 0, 1, k.data(), v.data());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  const PageShape wide{DType::kF32, 4, 1};
  Pages wide_pages(wide, 1);
  EXPECT_TRUE(store_kv(wide, wide_pages.writable(), 0, 1, k.data(), v.data()));
  v[3] = NAN;
  EXPECT_FALSE(store_kv(wide, wide_pages.writable(), 0, 1, k.data(), v.data()));
}

TEST(CheckWeights, FindsWhatIsNotFinite) {
  Rng rng(5);
  for (DType type : kAllTypes) {
    const int64_t k = 768;
    auto w = weights(rng, type, k, 5, Values::kMixed);
    EXPECT_TRUE(check_weights(w.matrix)) << info(type).name;
    uint8_t* p = w.bytes.data() + 3 * row_bytes(type, k) + 2 * info(type).block_bytes;
    const ScalePlaces places = scale_places(type);
    const bool wide = type == DType::kF32 || type == DType::kBF16;
    for (int place : {places.d, places.m}) {
      if (place < 0 && (place == places.m || info(type).block_values > 1)) continue;
      uint8_t* at = p + (type == DType::kF32 ? 2 : std::max(place, 0));
      const uint8_t before[2] = {at[0], at[1]};
      at[0] = type == DType::kMXFP4 ? 255 : wide ? 0x80 : 0x00;
      if (type != DType::kMXFP4) at[1] = wide ? 0x7f : 0x7c;
      const auto result = check_weights(w.matrix);
      ASSERT_FALSE(result) << info(type).name << " " << place;
      EXPECT_EQ(result.error().code, Code::kCorrupt);
      EXPECT_NE(
          result.error().message.find(fmt::format("row 3, column {}", 2 * info(type).block_values)),
          std::string::npos)
          << result.error().message;
      std::copy_n(before, 2, at);
    }
    EXPECT_TRUE(check_weights(w.matrix)) << info(type).name;
  }
}

TEST(AllFinite, SeesEveryPlace) {
  Rng rng(6);
  for (int64_t count : {1, 7, 33}) {
    auto x = floats(rng, count, Values::kMixed);
    EXPECT_TRUE(all_finite(x.data(), count));
    for (float bad : {INFINITY, -INFINITY, NAN})
      for (size_t i = 0; i < x.size(); i++) {
        const float old = std::exchange(x[i], bad);
        EXPECT_FALSE(all_finite(x.data(), count));
        x[i] = old;
      }
  }
}

}  // namespace
}  // namespace meadow::kernels
