#include "server/neighbours.h"

#include <algorithm>
#include <deque>
#include <mutex>

namespace meadow::server {

bool may_follow(BlockRange own, BlockRange theirs) {
  // at some border behind one of own's blocks
  return theirs.first <= own.last && theirs.last > own.first + 1;
}

std::vector<swarm::Link> likely_next(std::span<const swarm::ServerInfo> servers, const PeerId& self,
                                     BlockRange own) {
  struct Candidate {
    bool behind;  // holds the block right behind own
    swarm::Link link;
  };
  std::vector<Candidate> found;
  for (const swarm::ServerInfo& s : servers)
    if (s.peer.id != self && s.rtt >= Duration{} && may_follow(own, s.lease.blocks))
      found.push_back(
          {s.lease.blocks.contains(own.last), {s.peer.id, static_cast<float>(seconds(s.rtt))}});
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    if (a.behind != b.behind) return a.behind;
    return a.link.rtt_seconds < b.link.rtt_seconds;
  });
  std::vector<swarm::Link> out;
  for (const Candidate& c : found)
    if (out.size() < swarm::kMaxLinks) out.push_back(c.link);
  std::stable_sort(out.begin(), out.end(), [](const swarm::Link& a, const swarm::Link& b) {
    return a.rtt_seconds < b.rtt_seconds;
  });
  return out;
}

struct NetworkMeter::State {
  mutable std::mutex mutex;
  std::deque<double> rates;
};

NetworkMeter::NetworkMeter(swarm::ProbePort& port, const Clock& clock, Rng rng)
    : port_(port), clock_(clock), rng_(rng), state_(std::make_shared<State>()) {}

void NetworkMeter::tick(std::span<const swarm::ServerInfo> servers, const PeerId& self) {
  const TimePoint now = clock_.now();
  if (now < next_) return;
  std::vector<const swarm::ServerInfo*> others;
  for (const swarm::ServerInfo& s : servers)
    if (s.peer.id != self && s.lease.state == swarm::ServerState::kOnline) others.push_back(&s);
  next_ = now + (bytes_per_s() > 0 ? kPeriod : kFirstPeriod);
  if (others.empty()) return;
  const swarm::ServerInfo& chosen = *others[rng_.below(others.size())];
  const double trip = std::max(0.0, seconds(chosen.rtt));
  constexpr uint32_t kBytes = swarm::kMaxProbeBytes;
  port_.probe(chosen.peer, kBytes, Deadline(now + 10s),
              [state = state_, trip](Result<Duration> took) {
                if (!took) return;  // another time, another peer
                // the round trip itself is no matter of bandwidth
                const double bytes = 2.0 * kBytes;
                const double time = std::max(seconds(*took) - trip, 1e-6);
                const std::lock_guard lock(state->mutex);
                state->rates.push_back(bytes / time);
                if (state->rates.size() > kRemembered) state->rates.pop_front();
              });
}

double NetworkMeter::bytes_per_s() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->rates.empty()) return 0;
  std::vector<double> sorted(state_->rates.begin(), state_->rates.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

}  // namespace meadow::server
