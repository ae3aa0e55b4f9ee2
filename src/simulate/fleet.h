// The servers of a simulated swarm and what each of them knows of the others: every change of a
// server is seen by another after a time of its own.
// Thread rule: one thread.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "swarm/placement_plan.h"
#include "swarm/rebalancer.h"

namespace meadow::simulate {

// What a server announces at a time. Shared by all who know it.
struct Announced {
  TimePoint at;
  bool present = false;  // false: ended (by a word, or because the lease ran out)
  bool online = false;
  BlockRange blocks;
};

struct SimServer {
  uint64_t number = 0;
  PeerId id;
  int32_t length = 0;
  double speed = 0, announced_speed = 0;  // tokens/s through the span
  BlockRange blocks;                      // where it is, or loads
  BlockRange serving;                     // what it answers for now
  bool alive = false, online = false;
  std::deque<Announced>
      said;  // the newest last; older ones as long as somebody may not know better
  std::unique_ptr<swarm::Rebalancer> rule;
  uint64_t wake = 0;  // number of the wake-up that counts
  uint64_t loading = 0;
  BlockRange came_from;  // by its last move
  TimePoint came_at;
};

// How long news of one server's change takes to another.
class NewsDelay {
 public:
  NewsDelay(double mean_seconds, double loss, uint64_t seed);
  // Deterministic: exponential, cut at 4 times the mean, and a mean more for each message lost.
  Duration of(uint64_t from, TimePoint at, uint64_t to) const;
  Duration most() const { return most_; }

 private:
  double mean_, loss_;
  uint64_t seed_;
  Duration most_;
};

class Fleet {
 public:
  Fleet(int32_t n_blocks, NewsDelay delay) : n_blocks_(n_blocks), delay_(delay) {}

  SimServer& add(SimServer server);
  SimServer& at(uint64_t number) { return *servers_[number]; }
  const std::vector<uint64_t>& present() const { return present_; }
  // Announces what the server is now, or, with `ended`, that it is gone.
  void announce(SimServer& server, TimePoint at, bool ended);
  // Forgets servers that everybody knows to be gone.
  void forget(TimePoint now);
  // The swarm as `viewer` knows it at `now`; itself as it is.
  const std::vector<swarm::Placed>& view(uint64_t viewer, TimePoint now);
  const NewsDelay& delay() const { return delay_; }

 private:
  int32_t n_blocks_;
  NewsDelay delay_;
  std::vector<std::unique_ptr<SimServer>> servers_;  // by number; null once forgotten
  std::vector<uint64_t> present_;                    // numbers of those not forgotten
  std::vector<swarm::Placed> view_;
};

}  // namespace meadow::simulate
