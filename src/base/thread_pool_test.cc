#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace meadow {
namespace {

TEST(ThreadPool, EveryItemOnceForAnySize) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (size_t items : {0, 1, 7, 64, 1000})
      for (size_t chunk : {0, 1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> hits(items);
        pool.run(items, chunk, [&](size_t begin, size_t end, int worker) {
          ASSERT_LT(worker, threads);
          for (size_t i = begin; i < end; i++) hits[i]++;
        });
        for (auto& h : hits) EXPECT_EQ(h.load(), 1);
      }
  }
}

TEST(ThreadPool, ManySmallJobsInARow) {
  ThreadPool pool(2);
  std::atomic<size_t> sum{0};
  for (int i = 0; i < 5000; i++)
    pool.run(8, 1, [&](size_t begin, size_t end, int) { sum += end - begin; });
  EXPECT_EQ(sum.load(), 40000u);
}

}  // namespace
}  // namespace meadow
