#include "swarm/penalties.h"

#include <algorithm>
#include <cmath>

namespace meadow::swarm {

Penalties::Entry& Penalties::entry(const PeerId& id) {
  // reached only by reports about more servers than leases are kept: any one may go
  if (entries_.size() >= kMaxEntries && !entries_.contains(id)) entries_.erase(entries_.begin());
  return entries_[id];
}

void Penalties::failed(const PeerId& id, TimePoint now) {
  Entry& e = entry(id);
  if (e.strikes > 0) e.strikes *= std::exp2(-seconds(now - e.failed_at) / seconds(kStrikeHalfLife));
  e.strikes += 1;
  e.failed_at = now;
  const double penalty = seconds(kFirstPenalty) * std::exp2(std::min(e.strikes - 1, 10.0));
  e.until = std::max(e.until, now + std::min(from_seconds(penalty), kLongestPenalty));
}

void Penalties::full(const PeerId& id, TimePoint now) {
  Entry& e = entry(id);
  e.until = std::max(e.until, now + kFullPause);
}

bool Penalties::left_out(const PeerId& id, TimePoint lease_made, TimePoint now) const {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return false;
  return now < it->second.until || lease_made <= it->second.failed_at;
}

void Penalties::expire(TimePoint now) {
  std::erase_if(entries_, [&](const auto& e) {
    const bool mild = e.second.strikes == 0;
    return now >= e.second.until && (mild || now - e.second.failed_at > 10 * kStrikeHalfLife);
  });
}

}  // namespace meadow::swarm
