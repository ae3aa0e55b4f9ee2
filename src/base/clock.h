// Time is an argument: everything that waits or stamps takes a Clock or a TimePoint.
// Thread rule: every Clock is safe from any thread.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace meadow {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using namespace std::chrono_literals;  // 500ms, 30s

inline double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline double milliseconds(Duration d) { return seconds(d) * 1e3; }
inline Duration from_seconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic; its zero means nothing.
  virtual TimePoint now() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

// The fake: moves only when told.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(ns_.load())); }
  void advance(Duration d) { ns_ += d.count(); }
  void set(TimePoint t) { ns_ = t.time_since_epoch().count(); }

 private:
  std::atomic<int64_t> ns_{1'000'000'000};
};

// The end of a wait. A default Deadline never passes; give one to everything that crosses a
// process.
class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(TimePoint at) : at_(at) {}
  static Deadline after(const Clock& clock, Duration d) { return Deadline(clock.now() + d); }

  TimePoint at() const { return at_; }
  bool passed(TimePoint now) const { return now >= at_; }
  Deadline earlier(Deadline other) const { return at_ < other.at_ ? *this : other; }

 private:
  TimePoint at_ = TimePoint::max();
};

// A request to stop waiting, set once from any thread (a signal handler included), read by all.
class CancelToken {
 public:
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  void reset() { cancelled_.store(false, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

}  // namespace meadow
