// What a server learns of the network around it: round trips to those that may come after it in a
// chain, and how fast bytes travel to its peers.
// Thread rule: likely_next() is pure; a NetworkMeter belongs to one thread, its answers come on
// any.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "swarm/directory.h"
#include "swarm/ports.h"

namespace meadow::server {

// Whether a server with `theirs` may come right after one with `own` in a chain.
bool may_follow(BlockRange own, BlockRange theirs);

// Measured links to announce: the nearest of those that hold the block behind `own`, then the
// nearest of the others that may follow; kMaxLinks at most, the nearest first.
std::vector<swarm::Link> likely_next(std::span<const swarm::ServerInfo> servers, const PeerId& self,
                                     BlockRange own);

// Probes one server after another and keeps the median of what the last probes brought.
class NetworkMeter {
 public:
  // `port` must outlive its probes; the meter itself may go while one is under way.
  NetworkMeter(swarm::ProbePort& port, const Clock& clock, Rng rng);

  // Starts a probe of a random one of `servers` (without `self`) if one is due.
  void tick(std::span<const swarm::ServerInfo> servers, const PeerId& self);
  // Bytes per second while sending there and back, one after the other; 0: nothing measured.
  double bytes_per_s() const;

  static constexpr Duration kFirstPeriod = 2s;  // until the first answer
  static constexpr Duration kPeriod = 60s;
  static constexpr size_t kRemembered = 7;

 private:
  struct State;
  swarm::ProbePort& port_;
  const Clock& clock_;
  Rng rng_;
  TimePoint next_ = TimePoint::min();
  std::shared_ptr<State> state_;
};

}  // namespace meadow::server
