#include "server/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meadow::server {
namespace {

constexpr engine::BlockCost kCost{1'000'000, 100};
constexpr uint64_t kBlock = 1'000'000 + 100 * kWantedCacheTokens;

TEST(Capacity, AsManyBlocksAsFitWithTheirCache) {
  EXPECT_EQ(fit(kBlock * 7 + kBlock / 2, kCost, 30, 2048)->blocks, 7);
  EXPECT_EQ(fit(kBlock * 100, kCost, 30, 2048)->blocks, 30);
  EXPECT_EQ(fit(kBlock * 7, kCost, 30, 2048)->cache_tokens, kWantedCacheTokens);
}

TEST(Capacity, OneBlockWithLessCacheBeforeNone) {
  const auto capacity = fit(1'000'000 + 100 * 3000, kCost, 30, 2048);
  ASSERT_TRUE(capacity) << capacity.error().text();
  EXPECT_EQ(capacity->blocks, 1);
  EXPECT_EQ(capacity->cache_tokens, 2944);  // whole pages
}

TEST(Capacity, TooLittleIsNamedWithBothNumbers) {
  const auto capacity = fit(1'000'000 + 100 * 1000, kCost, 30, 2048);
  ASSERT_FALSE(capacity);
  EXPECT_EQ(capacity.error().code, Code::kResourceExhausted);
  EXPECT_THAT(capacity.error().message, testing::HasSubstr("1100000"));
  EXPECT_THAT(capacity.error().message, testing::HasSubstr("204800"));
  EXPECT_FALSE(fit_cache(5'000'000, kCost, 5, 64));
}

TEST(Capacity, NeverMoreThanTheMemory) {
  for (uint64_t memory = 2'000'000; memory < 200'000'000; memory += 1'234'567) {
    const auto capacity = fit(memory, kCost, 30, 64);
    ASSERT_TRUE(capacity) << memory;
    const auto blocks = static_cast<uint64_t>(capacity->blocks);
    EXPECT_LE(blocks * (kCost.weight_bytes +
                        kCost.cache_token_bytes * static_cast<uint64_t>(capacity->cache_tokens)),
              memory);
    EXPECT_EQ(capacity->cache_tokens % 64, 0);
  }
}

TEST(Capacity, TheSystemTells) { EXPECT_GT(available_memory_bytes(), uint64_t{1} << 20); }

}  // namespace
}  // namespace meadow::server
