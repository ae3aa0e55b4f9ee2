// The order-free forms compute what ours do, but for the order of sums.
#include "order_free/order_free.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention.h"
#include "kernels/each_target.h"
#include "kernels/test_data.h"

namespace meadow::bench::order_free {
namespace {
using namespace kernels::test;

// Relative distance of two arrays.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < got.size(); i++) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / norm);
}

TEST(OrderFree, ProductsAreOurs) {
  Rng rng(1);
  ThreadPool pool(2);
  kernels::Scratch scratch;
  const int64_t k = 512, m = 128;
  for (const DTypeInfo& type : kDTypes)
    for (const int64_t n : {1, 2, 3, 4, 5, 32, 37}) {
      SCOPED_TRACE(fmt::format("{} {}", type.name, n));
      const auto w = weights(rng, type.type, k, m, Values::kOrdinary);
      const auto x = floats(rng, k * n);
      std::vector<float> want(static_cast<size_t>(m * n)), got(want.size());
      kernels::matmul(w.matrix, x.data(), n, want.data(), pool, scratch);
      kernels::test::on_each_target([&] {
        const Product product = order_free::product(type.type, n);
        if (product == nullptr) return;
        product(w.matrix, x.data(), n, got.data(), pool);
        EXPECT_LT(distance(got, want), 1e-5);
      });
    }
}

TEST(OrderFree, AttentionIsOurs) {
  Rng rng(2);
  ThreadPool pool(2);
  kernels::Scratch scratch;
  const int64_t dim = 64, heads = 6, kv_heads = 2, depth = 512;
  const kernels::PageShape shape{DType::kF16, dim, kv_heads};
  const auto k = floats(rng, dim * kv_heads * depth), v = floats(rng, dim * kv_heads * depth);
  Pages pages(shape, depth);
  ASSERT_TRUE(kernels::store_kv(shape, pages.writable(), 0, depth, k.data(), v.data()));
  std::vector<uint16_t> keys(k.size()), values(v.size());
  for (int64_t p = 0; p < depth; p++)
    for (int64_t h = 0; h < kv_heads; h++)
      for (int64_t d = 0; d < dim; d++) {
        const auto from = static_cast<size_t>((p * kv_heads + h) * dim + d);
        keys[static_cast<size_t>(((p / 256 * kv_heads + h) * dim + d) * 256 + p % 256)] =
            float_to_half(k[from]);
        values[static_cast<size_t>((h * depth + p) * dim + d)] = float_to_half(v[from]);
      }
  const Cache cache{keys.data(), values.data(), depth, dim, kv_heads};
  for (const int64_t n : {1, 5, 300}) {
    const auto q = floats(rng, dim * heads * n);
    std::vector<float> want(q.size()), got(q.size());
    const int64_t first = 500 - n;
    kernels::attention(shape, pages.readable(), first, n, q.data(), heads, 0.125f, want.data(),
                       pool, scratch);
    kernels::test::on_each_target([&] {
      if (!has_attention()) return;
      attention(cache, first, n, q.data(), heads, 0.125f, got.data(), pool);
      EXPECT_LT(distance(got, want), 1e-5);
    });
  }
}

}  // namespace
}  // namespace meadow::bench::order_free
