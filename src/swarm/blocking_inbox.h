// EventInbox with a lock and a condition variable: what a real client's session waits on.
// Thread rule: post() from any thread, wait() from one. A cancel token cannot notify (a
// signal handler may set it), so it is looked at every kCancelPoll.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "swarm/ports.h"

namespace meadow::swarm {

class BlockingInbox final : public EventInbox {
 public:
  explicit BlockingInbox(const Clock& clock) : clock_(clock) {}

  void post(StreamEvent event) override {
    {
      std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    arrived_.notify_one();
  }

  std::optional<StreamEvent> wait(TimePoint until, const CancelToken* cancel) override {
    std::unique_lock lock(mutex_);
    while (events_.empty()) {
      if (cancel != nullptr && cancel->cancelled()) return std::nullopt;
      const TimePoint now = clock_.now();
      if (now >= until) return std::nullopt;
      const Duration left = until - now;
      arrived_.wait_for(lock, cancel == nullptr ? std::min<Duration>(left, 1h)
                                                : std::min<Duration>(left, kCancelPoll));
    }
    StreamEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  static constexpr Duration kCancelPoll = 20ms;

  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<StreamEvent> events_;
};

}  // namespace meadow::swarm
