// The one thread that touches the blocks of a span: a queue of tasks behind swarm::Worker.
// Thread rule: post() and run() from any thread but its own; the destructor waits for the task in
// work and drops the rest. Owns the thread, which sleeps when there is nothing to do.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "swarm/ports.h"

namespace meadow::server {

class WorkerThread final : public swarm::Worker {
 public:
  WorkerThread();
  ~WorkerThread() override;

  void post(std::function<void()> task) override;
  // Ends the thread: the task in work is finished, those that wait are dropped, later ones ignored.
  void stop();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace meadow::server
