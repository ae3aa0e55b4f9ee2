#include "engine/page_pool.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compute/cpu_ops.h"

namespace meadow::engine {
namespace {

TEST(PagePool, PagesFor) {
  EXPECT_EQ(PagePool::pages_for(0), 0);
  EXPECT_EQ(PagePool::pages_for(1), 1);
  EXPECT_EQ(PagePool::pages_for(64), 1);
  EXPECT_EQ(PagePool::pages_for(65), 2);
}

TEST(PagePool, CountsAndReuses) {
  compute::CpuOps ops(1);
  PagePool pool(ops, {DType::kF16, 32, 2}, 3);
  ASSERT_TRUE(pool.reserve(2));
  EXPECT_FALSE(pool.reserve(2));
  EXPECT_EQ(pool.reserved(), 2);  // a refusal reserves nothing
  ASSERT_TRUE(pool.reserve(1));
  auto a = pool.take(), b = pool.take();
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->memory, b->memory);
  EXPECT_EQ(pool.taken(), 2);
  const auto* bytes = static_cast<const uint8_t*>(a->memory);
  for (uint64_t i = 0; i < ops.page_bytes(pool.shape()); i++) ASSERT_EQ(bytes[i], 0);
  pool.give(*a);
  EXPECT_EQ(pool.taken(), 1);
  auto c = pool.take();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->memory, a->memory);
  pool.release(3);
  EXPECT_EQ(pool.reserved(), 0);
}

TEST(PagePool, HugeReservationsDoNotOverflow) {
  compute::CpuOps ops(1);
  PagePool pool(ops, {DType::kF16, 32, 2}, 3);
  EXPECT_FALSE(pool.reserve(INT64_MAX));
  ASSERT_TRUE(pool.reserve(3));
  EXPECT_FALSE(pool.reserve(INT64_MAX));
}

}  // namespace
}  // namespace meadow::engine
