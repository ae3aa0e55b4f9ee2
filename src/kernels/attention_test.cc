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

constexpr DType kCacheTypes[] = {DType::kF16, DType::kF32, DType::kQ8_0};

Case draw_case(Rng& rng, int index) {
  Case c;
  c.shape.type = kCacheTypes[index % 3];
  const int64_t kDims[] = {64, 33, 80, 128, 256, 1 + static_cast<int64_t>(rng.below(100))};
  c.shape.head_dim = kDims[rng.below(6)];
  c.shape.n_head_kv = 1 + static_cast<int64_t>(rng.below(3));
  c.n_head = c.shape.n_head_kv * (1 + static_cast<int64_t>(rng.below(8)));
  const int64_t kFirst[] = {
      0, static_cast<int64_t>(rng.below(200)), 62 + index % 4, 1020, 1023 + index % 3, 2040};
  c.first = kFirst[rng.below(6)];
  const int64_t kCount[] = {1, 1, 2, 3, 5, 8, 13, 33, 70};
  c.n = kCount[rng.below(c.first < 1000 ? 9 : 4)];
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
  for (int i = 0; i < 75; i++) {
    const Case c = draw_case(rng, i);
    SCOPED_TRACE(fmt::format("case {}: {} head_dim {} heads {}/{} first {} n {}", i,
                             info(c.shape.type).name, c.shape.head_dim, c.n_head, c.shape.n_head_kv,
                             c.first, c.n));
    const Cache cache(rng, c, kAllValues[i / 3 % 5]);
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
  for (const DType type : kCacheTypes) {
    const Case c{{type, 24, 2}, 6, 0, 150};
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
}

// Scores that overflow to infinities of both signs make the result of their own query NaN, as in
// the definition, and no other's.
TEST(Attention, NotANumberStaysInItsQuery) {
  Rng rng(14);
  ThreadPool pool(2);
  Scratch scratch;
  for (const int64_t n : {1, 7}) {
    const PageShape shape{DType::kF32, 40, 2};
    const int64_t first = 1050, n_head = 6;
    Pages pages(shape, first + n);
    auto k = floats(rng, 80 * (first + n)), q = floats(rng, 40 * n_head * n);
    const auto v = floats(rng, 80 * (first + n));
    k[80 * 100] = 1e20f, k[80 * 100 + 1] = -1e20f;  // head 0 of position 100
    q[40] = q[41] = 1e20f;                          // query 1 of head 0
    ASSERT_TRUE(store_kv(shape, pages.writable(), 0, first + n, k.data(), v.data()));
    std::vector<float> want(q.size());
    reference::attention(shape, pages.readable(), first, n, q.data(), n_head, 1.0f, want.data());
    on_each_target([&] {
      std::vector<float> got(q.size());
      attention(shape, pages.readable(), first, n, q.data(), n_head, 1.0f, got.data(), pool,
                scratch);
      for (size_t i = 0; i < want.size(); i++) {
        EXPECT_EQ(std::isnan(got[i]), std::isnan(want[i])) << i;
        EXPECT_EQ(std::isnan(got[i]), i >= 40 && i < 80) << i;
        if (!std::isnan(got[i])) {
          EXPECT_EQ(got[i], want[i]);
        }
      }
    });
  }
}

// What is read back from a cache of type Q8_0: one position, of which the softmax makes nothing
// else.
std::vector<float> through_q8_0(const std::vector<float>& values) {
  const auto dim = static_cast<int64_t>(values.size());
  const PageShape shape{DType::kQ8_0, dim, 1};
  Pages pages(shape, 1);
  EXPECT_TRUE(store_kv(shape, pages.writable(), 0, 1, values.data(), values.data()));
  std::vector<float> q(values.size()), out(values.size());
  reference::attention(shape, pages.readable(), 0, 1, q.data(), 1, 1.0f, out.data());
  return out;
}

TEST(Attention, Q8CacheRoundsToTheScaleOfItsBlock) {
  std::vector<float> values(40, 1.0f);
  values[0] = 127, values[1] = 0.5f, values[2] = 1.5f, values[3] = -2.5f;  // the scale is 1
  values[32] = -254, values[33] = 1;                                       // the scale is 2
  values[34] = 3;
  const auto got = through_q8_0(values);
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 5),
            (std::vector<float>{127, 0, 2, -2, 1}));
  EXPECT_EQ(std::vector<float>(got.begin() + 32, got.begin() + 36),
            (std::vector<float>{-254, 0, 4, 0}));
  // Below half of the least half-precision scale, all is zero; a subnormal scale cannot say the
  // largest value and gives 127 of itself.
  EXPECT_EQ(through_q8_0({0x1p-19f, -0x1p-20f}), (std::vector<float>{0, 0}));
  EXPECT_EQ(through_q8_0({127 * 0x1.6p-24f}), (std::vector<float>{127 * 0x1p-24f}));
}

TEST(Attention, NumericsIdTellsVersionAndCache) {
  EXPECT_EQ(numerics_id(DType::kF16), 1u);
  EXPECT_EQ(numerics_id(DType::kF32), 257u);
  EXPECT_EQ(numerics_id(DType::kQ8_0), 513u);
}

TEST(Attention, EveryTargetStoresTheReferencesBytes) {
  Rng rng(15);
  for (int i = 0; i < 60; i++) {
    const Case c = draw_case(rng, i);
    SCOPED_TRACE(fmt::format("case {}: {} head_dim {} heads {} first {} n {}", i,
                             info(c.shape.type).name, c.shape.head_dim, c.shape.n_head_kv, c.first,
                             c.n));
    const int64_t count = c.shape.head_dim * c.shape.n_head_kv * c.n;
    const Values values = kAllValues[i / 3 % 5];
    auto k = floats(rng, count, values), v = floats(rng, count, values);
    for (auto* x : {&k, &v})
      for (float& f : *x) f *= values == Values::kHuge ? 0x1p-28f : 1.0f;  // into the range of f16
    const auto store = [&](Pages& pages) {
      return store_kv(c.shape, pages.writable(), c.first, c.n, k.data(), v.data()).has_value();
    };
    const Target before = active_target();
    ASSERT_TRUE(force_target(Target::kScalar));
    Pages want(c.shape, c.first + c.n);
    const bool fits = store(want);
    ASSERT_TRUE(force_target(before));
    on_each_target([&] {
      Pages got(c.shape, c.first + c.n);
      ASSERT_EQ(store(got), fits);
      for (size_t page = 0; fits && page < want.readable().size(); page++)
        ASSERT_EQ(0, std::memcmp(got.readable()[page], want.readable()[page], c.shape.bytes()))
            << "page " << page;
    });
    if (HasFatalFailure()) return;
  }
}

TEST(Attention, StoringRefusesWhatItsTypeCannotHold) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto stores = [](DType type, float key, float value) {
    std::vector<float> k(33, 1.0f), v(33, 1.0f);
    k[32] = key, v[7] = value;
    const PageShape shape{type, 33, 1};
    Pages pages(shape, 1);
    bool all = true;
    on_each_target([&] {
      const auto stored = store_kv(shape, pages.writable(), 0, 1, k.data(), v.data());
      if (!stored) {
        EXPECT_EQ(stored.error().code, Code::kInvalidArgument);
      }
      all &= stored.has_value();
    });
    return all;
  };
  for (const DType type : kCacheTypes)
    for (const float bad : {infinity, -infinity, NAN})
      EXPECT_FALSE(stores(type, bad, 1) || stores(type, 1, bad));
  EXPECT_TRUE(stores(DType::kF16, 65519, -65519));
  EXPECT_FALSE(stores(DType::kF16, 65520, 1));
  EXPECT_FALSE(stores(DType::kF16, 1, -65520));
  EXPECT_TRUE(stores(DType::kF32, 3e38f, -3e38f));
  EXPECT_TRUE(stores(DType::kQ8_0, 65519.0f * 127, -1));
  EXPECT_FALSE(stores(DType::kQ8_0, 65520.0f * 127, 1));
  EXPECT_FALSE(stores(DType::kQ8_0, 1, -65521.0f * 127));
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
