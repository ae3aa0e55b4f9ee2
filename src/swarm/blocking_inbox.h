// EventInbox with a lock and a condition variable: what a real client's session waits on.
// Thread rule: post() from any thread, wait() from one. A cancel token cannot notify (a
// signal handler may set it), so it is looked at every kCancelPoll.
// Bounded: a session that does not look (a person thinks) must not fill up with what a server sends
// unasked. What is over the bound is dropped, as if lost on the way: the session asks again, or
// replaces the server. Only ends of streams always arrive; there is one to a stream.
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
      const size_t bytes = payload_bytes(event);
      const bool full = events_.size() >= kMaxEvents || bytes_ + bytes > kMaxBytes;
      if (full && !std::holds_alternative<StreamClosed>(event.what)) return;
      bytes_ += bytes;
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
    bytes_ -= payload_bytes(event);
    return event;
  }

  static constexpr size_t kMaxEvents = 16384;
  static constexpr size_t kMaxBytes = size_t{256} << 20;  // of hidden states

 private:
  static size_t payload_bytes(const StreamEvent& event) {
    const auto* message = std::get_if<ServerMessage>(&event.what);
    const auto* output = message == nullptr ? nullptr : std::get_if<StepOutput>(message);
    return output == nullptr ? 0 : output->output.bytes.size();
  }

  static constexpr Duration kCancelPoll = 20ms;

  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<StreamEvent> events_;
  size_t bytes_ = 0;  // payload of events_
};

}  // namespace meadow::swarm
