#include "swarm/thread_worker.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace meadow::swarm {
namespace {

TEST(ThreadWorker, RunsTasksInOrderOnOneOtherThread) {
  ThreadWorker worker;
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  std::promise<void> done;
  for (int i = 0; i < 100; i++)
    worker.post([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  worker.post([&] { done.set_value(); });
  done.get_future().wait();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; i++) {
    EXPECT_EQ(order[i], i);
    EXPECT_EQ(threads[i], threads[0]);
  }
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(ThreadWorker, StopFinishesTheTaskInWorkAndDropsTheRest) {
  std::promise<void> begun, go_on;
  std::shared_future<void> gate = go_on.get_future().share();
  bool finished = false, dropped_ran = false;
  auto token = std::make_shared<int>(1);
  ThreadWorker worker;
  worker.post([&, gate] {
    begun.set_value();
    gate.wait();
    finished = true;
  });
  worker.post([&, token] { dropped_ran = true; });
  begun.get_future().wait();
  std::thread stopper([&] { worker.stop(); });
  go_on.set_value();
  stopper.join();
  EXPECT_TRUE(finished);
  // Whether the second one ran depends on who was first; in both cases it is gone.
  EXPECT_EQ(token.use_count(), 1);
  const bool ran = dropped_ran;
  worker.post([&] { dropped_ran = !ran; });
  EXPECT_EQ(dropped_ran, ran);
}

}  // namespace
}  // namespace meadow::swarm
