// Which servers are left out for a while because they failed somebody or had no room.
// Thread rule: one thread at a time (Membership's lock). Bounded.
#pragma once
#include <unordered_map>

#include "base/clock.h"
#include "base/types.h"

namespace meadow::swarm {

class Penalties {
 public:
  // The server failed: left out until kFirstPenalty * 2^(strikes - 1), at most kLongestPenalty, has
  // passed and a lease made after this moment has come. Strikes halve with every kStrikeHalfLife
  // without a failure.
  void failed(const PeerId& id, TimePoint now);
  // No room: left out for kFullPause, no strike.
  void full(const PeerId& id, TimePoint now);
  // It answered: all is forgiven.
  void succeeded(const PeerId& id) { entries_.erase(id); }

  // Whether a server whose lease was made at `lease_made` is left out now.
  bool left_out(const PeerId& id, TimePoint lease_made, TimePoint now) const;
  // Drops what no longer matters.
  void expire(TimePoint now);

  static constexpr Duration kFirstPenalty = 1s;
  static constexpr Duration kLongestPenalty = 60s;
  static constexpr Duration kStrikeHalfLife = 60s;
  static constexpr Duration kFullPause = 1s;
  static constexpr size_t kMaxEntries = 4096;

 private:
  struct Entry {
    double strikes = 0;
    TimePoint failed_at = TimePoint::min();  // last failure
    TimePoint until = TimePoint::min();      // penalty or pause
  };
  Entry& entry(const PeerId& id);

  std::unordered_map<PeerId, Entry> entries_;
};

}  // namespace meadow::swarm
