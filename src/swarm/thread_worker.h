// The Worker of a real server: one thread that runs tasks in order and sleeps when there are none.
// Thread rule: post() from any thread; the destructor from any but the worker's. Owns its thread;
// destroying it runs the task under way to its end and drops the rest.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "swarm/ports.h"

namespace meadow::swarm {

class ThreadWorker final : public Worker {
 public:
  ThreadWorker() : thread_([this] { run(); }) {}
  ~ThreadWorker() override { stop(); }
  ThreadWorker(const ThreadWorker&) = delete;
  ThreadWorker& operator=(const ThreadWorker&) = delete;

  // After stop() the task is dropped.
  void post(std::function<void()> task) override {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      tasks_.push_back(std::move(task));
    }
    arrived_.notify_one();
  }

  // Ends the thread. Blocks for the task under way. Idempotent; not from the worker itself.
  void stop() {
    std::deque<std::function<void()>> dropped;
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      dropped.swap(tasks_);
    }
    arrived_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      arrived_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // what it holds goes outside the lock
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace meadow::swarm
