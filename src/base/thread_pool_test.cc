#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>
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
          ASSERT_LE(end - begin, std::max<size_t>(chunk, 1));
          for (size_t i = begin; i < end; i++) hits[i]++;
        });
        for (auto& h : hits) EXPECT_EQ(h.load(), 1);
      }
  }
}

// More jobs than the gate has numbers for; a late helper must never work on a job that is over.
TEST(ThreadPool, ManySmallJobsInARow) {
  ThreadPool pool(3);
  for (size_t i = 0; i < 100000; i++) {
    std::atomic<size_t> sum{0};
    size_t first = i;  // dies with the job
    pool.run(8, 1, [&](size_t begin, size_t end, int) { sum += end - begin + first - i; });
    ASSERT_EQ(sum.load(), 8u);
  }
}

// No helper ever takes part unless the caller waits inside its own chunk: then one must.
TEST(ThreadPool, HelpersCome) {
  ThreadPool pool(2);
  for (int i = 0; i < 20; i++) {
    std::atomic<bool> helped{false};
    pool.run(2, 1, [&](size_t, size_t, int worker) {
      if (worker != 0) helped = true, helped.notify_all();
      helped.wait(false);
    });
    EXPECT_TRUE(helped);
    std::this_thread::yield();
  }
}

TEST(ThreadPool, PinsOrSaysWhyNot) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const int cpus = CPU_COUNT(&allowed);
  ThreadPool fits(cpus), too_many(cpus + 1);
  if (auto pinned = fits.pin(); !pinned) {
    EXPECT_EQ(pinned.error().code, Code::kPermissionDenied);
  }
  const auto refused = too_many.pin();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  for (ThreadPool* pool : {&fits, &too_many}) {
    std::atomic<size_t> sum{0};
    pool->run(100, 3, [&](size_t begin, size_t end, int) { sum += end - begin; });
    EXPECT_EQ(sum.load(), 100u);
  }
  // The caller stays free.
  cpu_set_t after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&allowed, &after));
}

}  // namespace
}  // namespace meadow
