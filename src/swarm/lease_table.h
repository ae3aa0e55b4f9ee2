// The leases that a member keeps: the newest of every peer, for kLeaseTtl by its own clock, and
// tombstones, so that one that has run out cannot come back as an older copy.
// Thread rule: one thread at a time (Membership's lock). Owns its entries; bounded.
#pragma once
#include <map>
#include <unordered_map>
#include <vector>

#include "swarm/gossip.h"

namespace meadow::swarm {

constexpr Duration kTombstoneLife = 600s;
// Of the leases in one message: below the usual limit of 4 MB per message.
constexpr size_t kMaxNewsBytes = 2 << 20;

using KnownVersions = std::unordered_map<PeerId, uint64_t>;

class LeaseTable {
 public:
  struct Entry {
    Lease lease;
    SignedLease signed_lease;
    TimePoint made;  // by the reader's clock: receipt less the age it had then
  };

  LeaseTable(size_t max_leases, size_t max_bytes)
      : max_leases_(max_leases), max_bytes_(max_bytes) {}

  // Whether this is newer than all that is known of the peer, alive or not. Ask before checking a
  // signature.
  bool is_news(const PeerId& id, uint64_t sequence) const;
  // Keeps a verified lease. kFailedPrecondition: no news, or older than a lease lives;
  // kResourceExhausted: the table is full of other peers' leases.
  Result<void> insert(Lease lease, SignedLease signed_lease, Duration age, TimePoint now);
  // Turns leases that have run out into tombstones, drops old tombstones. Returns whose ran out.
  std::vector<PeerId> expire(TimePoint now);

  const Entry* find(const PeerId& id) const;
  const std::map<PeerId, Entry>& entries() const { return entries_; }
  size_t tombstones() const { return tombstones_.size(); }

  // What is newer here than `known`, the youngest first, within the limits of one message.
  std::vector<LeaseEntry> newer_than(const KnownVersions& known, TimePoint now) const;
  // The leases of these peers, within the limits of one message.
  std::vector<LeaseEntry> leases_of(const std::vector<PeerId>& ids, TimePoint now) const;
  // Peers of whom `known` has newer ones than the table.
  std::vector<PeerId> older_than(const KnownVersions& known) const;
  // Versions of all leases and tombstones.
  std::vector<LeaseVersion> versions() const;

 private:
  struct Tombstone {
    uint64_t sequence = 0;
    TimePoint until;
  };
  void bury(const PeerId& id, uint64_t sequence, TimePoint now);

  size_t max_leases_, max_bytes_;
  size_t bytes_ = 0;  // of all bodies
  std::map<PeerId, Entry> entries_;
  std::unordered_map<PeerId, Tombstone> tombstones_;
};

}  // namespace meadow::swarm
