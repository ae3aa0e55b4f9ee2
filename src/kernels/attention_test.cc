// Every target against the scalar definition, in every bit.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include "kernels/each_target.h"
#include "kernels/reference.h"
#include "kernels/test_data.h"

namespace meadow::kernels {
namespace {
using namespace test;

struct Case {
  PageShape shape;
  int64_t n_head, first, n;
};

Case draw_case(Rng& rng, int index) {
  Case c;
  c.shape.type = index % 2 == 0 ? DType::kF16 : DType::kF32;
  c.shape.head_dim = index % 4 < 2 ? 64 : 1 + static_cast<int64_t>(rng.below(100));
  c.shape.n_head_kv = 1 + static_cast<int64_t>(rng.below(3));
  c.n_head = c.shape.n_head_kv * (1 + static_cast<int64_t>(rng.below(4)));
  const int64_t kFirst[] = {0, static_cast<int64_t>(rng.below(200)), 1020, 2040};
  c.first = kFirst[index % 4];
  const int64_t kCount[] = {1, 2, 3, 5, 8, 13, 33, 70};
  c.n = kCount[rng.below(c.first < 1000 ? 8 : 6)];
  return c;
}

class Cache {
 public:
  Cache(Rng& rng, const Case& c, Values values)
      : pages_(c.shape, c.first + c.n), width_(c.shape.head_dim * c.shape.n_head_kv) {
    const int64_t positions = c.first + c.n;
    auto k = floats(rng, width_ * positions, values), v = floats(rng, width_ * positions, values);
    const float fit = values == Values::kHuge    ? 0x1p-28f
                      : values == Values::kMixed ? 0x1p-8f
                                                 : 1.0f;
    for (auto* x : {&k, &v})
      for (float& f : *x) f *= fit;  // into the range of f16
    stored_ = store_kv(c.shape, pages_.writable(), 0, positions, k.data(), v.data()).has_value();
  }
  bool stored() const { return stored_; }
  std::vector<const uint8_t*> pages() const { return pages_.readable(); }

 private:
  Pages pages_;
  int64_t width_;
  bool stored_ = false;
};

TEST(Attention, EveryTargetAndThreadCountGivesTheReferencesBits) {
  Rng rng(11);
  ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  Scratch scratch;
  for (int i = 0; i < 60; i++) {
    const Case c = draw_case(rng, i);
    SCOPED_TRACE(fmt::format("case {}: head_dim {} heads {}/{} first {} n {}", i, c.shape.head_dim,
                             c.n_head, c.shape.n_head_kv, c.first, c.n));
    const Cache cache(rng, c, kAllValues[i / 4 % 5]);
    ASSERT_TRUE(cache.stored());
    auto q = floats(rng, c.shape.head_dim * c.n_head * c.n);
    std::vector<float> want(q.size());
    const float scale = 0.5f / std::sqrt(static_cast<float>(c.shape.head_dim));
    reference::attention(c.shape, cache.pages(), c.first, c.n, q.data(), c.n_head, scale,
                         want.data());
    on_each_target([&] {
      std::vector<float> got(q.size(), NAN);
      attention(c.shape, cache.pages(), c.first, c.n, q.data(), c.n_head, scale, got.data(),
                pools[i % 3], scratch);
      EXPECT_EQ(difference(got, want), "");
    });
    if (HasFailure()) return;
  }
}

TEST(Attention, AnyChunkingOfThePromptGivesTheSameBits) {
  Rng rng(12);
  ThreadPool pool(2);
  Scratch scratch;
  const Case c{{DType::kF16, 24, 2}, 6, 0, 150};
  const Cache cache(rng, c, Values::kOrdinary);
  const int64_t width = c.shape.head_dim * c.n_head;
  const auto q = floats(rng, width * c.n);
  std::vector<float> whole(q.size()), cut(q.size());
  on_each_target([&] {
    attention(c.shape, cache.pages(), 0, c.n, q.data(), c.n_head, 0.2f, whole.data(), pool,
              scratch);
    for (int64_t begin = 0, n; begin < c.n; begin += n) {
      n = std::min<int64_t>(1 + static_cast<int64_t>(rng.below(40)), c.n - begin);
      attention(c.shape, cache.pages(), begin, n, q.data() + begin * width, c.n_head, 0.2f,
                cut.data() + begin * width, pool, scratch);
    }
    EXPECT_EQ(difference(cut, whole), "");
  });
}

// What lies in the cache after a query's position, even NaN, must not touch its result.
TEST(Attention, LaterPositionsDoNotMatter) {
  Rng rng(13);
  ThreadPool pool(1);
  Scratch scratch;
  const PageShape shape{DType::kF32, 16, 1};
  Pages pages(shape, 64);
  const auto k = floats(rng, 16 * 20), v = floats(rng, 16 * 20), q = floats(rng, 16);
  ASSERT_TRUE(store_kv(shape, pages.writable(), 0, 20, k.data(), v.data()));
  on_each_target([&] {
    std::vector<float> before(16), after(16);
    Pages clean(shape, 64);
    ASSERT_TRUE(store_kv(shape, clean.writable(), 0, 10, k.data(), v.data()));
    attention(shape, clean.readable(), 9, 1, q.data(), 1, 1.0f, before.data(), pool, scratch);
    attention(shape, pages.readable(), 9, 1, q.data(), 1, 1.0f, after.data(), pool, scratch);
    EXPECT_EQ(difference(after, before), "");
    for (float x : before) EXPECT_TRUE(std::isfinite(x));
  });
}

}  // namespace
}  // namespace meadow::kernels
