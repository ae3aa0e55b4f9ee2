// Virtual time for a whole swarm in one process: an event queue, peers that can be killed or
// frozen, links with latency, a clock per peer that may be wrong. The same events give the same
// run. Thread rule: one thread. Owns the queued events; they may capture whatever outlives the
// world.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace meadow::simulate {

using Peer = int;  // number of a simulated peer, from add_peer()

class SimWorld {
 public:
  using Event = std::function<void()>;

  TimePoint now() const { return clock_.now(); }
  const Clock& clock() const { return clock_; }

  // `event` runs at `at` (now, if that is past), after those posted earlier for the same time.
  void post_at(TimePoint at, Event event) {
    queue_.emplace(Key{std::max(at, now()), next_++}, std::move(event));
  }
  void post_after(Duration delay, Event event) { post_at(now() + delay, std::move(event)); }

  // Runs all events up to `until` and leaves the clock there; returns false. With `done`, stops and
  // returns true as soon as it holds (asked first and after every event). May be called from inside
  // an event: a blocking call of the simulated program waits by running the world.
  bool run_until(TimePoint until, const std::function<bool()>& done = {}) {
    for (;;) {
      if (done && done()) return true;
      if (queue_.empty() || queue_.begin()->first.first > until) break;
      auto node = queue_.extract(queue_.begin());
      clock_.set(std::max(now(), node.key().first));
      if (auto hook = before_.extract(++events_)) hook.mapped()();
      node.mapped()();
    }
    clock_.set(std::max(now(), until));
    return false;
  }
  bool run_for(Duration d, const std::function<bool()>& done = {}) {
    return run_until(now() + d, done);
  }

  // Events run so far; `hook` runs right before event number `n` (from 1): a failure at every point
  // of a run is a loop over n.
  int64_t events() const { return events_; }
  void before_event(int64_t n, Event hook) { before_[n] = std::move(hook); }

  // ---- peers ------------------------------------------------------------------------------------

  // `clock_offset`: how far this peer's clock is from the world's.
  Peer add_peer(Duration clock_offset = Duration{}) {
    peers_.push_back(std::make_unique<State>(clock_, clock_offset));
    return static_cast<Peer>(peers_.size()) - 1;
  }
  const Clock& clock_of(Peer p) const { return state(p).clock; }
  bool alive(Peer p) const { return state(p).alive; }
  bool frozen(Peer p) const { return state(p).frozen; }

  // A timer of peer p: dropped if p was killed before, held while it is frozen.
  void post_on(Peer p, Duration delay, Event event) {
    post_after(delay,
               [this, p, event = std::move(event)]() mutable { run_on(p, std::move(event)); });
  }
  // A message: `arrive` runs on `to` after the link's latency. Lost if `from` is dead now or `to`
  // then.
  void send(Peer from, Peer to, Event arrive) {
    if (alive(from)) post_on(to, latency(from, to), std::move(arrive));
  }

  // As by SIGKILL: no event of p runs any more; on_kill() callbacks run at once (a transport resets
  // its links there).
  void kill(Peer p) {
    if (!alive(p)) return;
    state(p).alive = false;
    state(p).held.clear();
    for (const auto& callback : on_kill_) callback(p);
  }
  void on_kill(std::function<void(Peer)> callback) { on_kill_.push_back(std::move(callback)); }
  // As by SIGSTOP: its events wait, nobody is told.
  void freeze(Peer p) { state(p).frozen = true; }
  void thaw(Peer p) {
    state(p).frozen = false;
    for (Event& event : std::exchange(state(p).held, {})) post_on(p, Duration{}, std::move(event));
  }

  // ---- links ------------------------------------------------------------------------------------

  void set_default_latency(Duration one_way) { default_latency_ = one_way; }
  // In both directions.
  void set_latency(Peer a, Peer b, Duration one_way) { latency_[ordered(a, b)] = one_way; }
  Duration latency(Peer a, Peer b) const {
    const auto it = latency_.find(ordered(a, b));
    return it == latency_.end() ? default_latency_ : it->second;
  }

 private:
  using Key = std::pair<TimePoint, uint64_t>;

  class OffsetClock final : public Clock {
   public:
    OffsetClock(const Clock& base, Duration offset) : base_(base), offset_(offset) {}
    TimePoint now() const override { return base_.now() + offset_; }

   private:
    const Clock& base_;
    Duration offset_;
  };
  struct State {
    State(const Clock& base, Duration offset) : clock(base, offset) {}
    OffsetClock clock;
    bool alive = true;
    bool frozen = false;
    std::vector<Event> held;
  };

  State& state(Peer p) const {
    MEADOW_CHECK(p >= 0 && static_cast<size_t>(p) < peers_.size());
    return *peers_[static_cast<size_t>(p)];
  }
  void run_on(Peer p, Event event) {
    if (!alive(p)) return;
    if (frozen(p))
      state(p).held.push_back(std::move(event));
    else
      event();
  }
  static std::pair<Peer, Peer> ordered(Peer a, Peer b) { return {std::min(a, b), std::max(a, b)}; }

  ManualClock clock_;
  std::map<Key, Event> queue_;
  uint64_t next_ = 0;
  int64_t events_ = 0;
  std::map<int64_t, Event> before_;
  std::vector<std::unique_ptr<State>> peers_;
  std::vector<std::function<void(Peer)>> on_kill_;
  Duration default_latency_ = 5ms;
  std::map<std::pair<Peer, Peer>, Duration> latency_;
};

}  // namespace meadow::simulate
