#include "swarm/lease_table.h"

#include <algorithm>

namespace meadow::swarm {
namespace {

uint32_t age_ms(TimePoint made, TimePoint now) {
  return static_cast<uint32_t>(std::max<int64_t>(0, (now - made) / 1ms));
}

// Adds entries to a message until it is full.
class News {
 public:
  explicit News(TimePoint now) : now_(now) {}
  bool add(const LeaseTable::Entry& entry) {
    const size_t size = entry.signed_lease.body.size() + Signature::kSize;
    if (out_.size() == kMaxLeasesPerExchange || bytes_ + size > kMaxNewsBytes) return false;
    bytes_ += size;
    out_.push_back({entry.signed_lease, age_ms(entry.made, now_)});
    return true;
  }
  std::vector<LeaseEntry> take() { return std::move(out_); }

 private:
  TimePoint now_;
  size_t bytes_ = 0;
  std::vector<LeaseEntry> out_;
};

}  // namespace

bool LeaseTable::is_news(const PeerId& id, uint64_t sequence) const {
  const auto entry = entries_.find(id);
  if (entry != entries_.end() && entry->second.lease.sequence >= sequence) return false;
  const auto tombstone = tombstones_.find(id);
  return tombstone == tombstones_.end() || tombstone->second.sequence < sequence;
}

Result<void> LeaseTable::insert(Lease lease, SignedLease signed_lease, Duration age,
                                TimePoint now) {
  const PeerId id = lease.id();
  if (!is_news(id, lease.sequence))
    return fail(Code::kFailedPrecondition, "lease {} of {} is no news", lease.sequence,
                short_id(id));
  if (age >= kLeaseTtl)
    return fail(Code::kFailedPrecondition, "lease {} of {} has run out", lease.sequence,
                short_id(id));
  const auto known = entries_.find(id);
  const size_t replaced = known == entries_.end() ? 0 : known->second.signed_lease.body.size();
  const size_t bytes = bytes_ - replaced + signed_lease.body.size();
  if (bytes > max_bytes_ || (known == entries_.end() && entries_.size() >= max_leases_))
    return fail(Code::kResourceExhausted, "no room for the lease of {}: {} leases, {} bytes kept",
                short_id(id), entries_.size(), bytes_);
  bytes_ = bytes;
  tombstones_.erase(id);
  entries_.insert_or_assign(id, Entry{std::move(lease), std::move(signed_lease), now - age});
  return {};
}

void LeaseTable::bury(const PeerId& id, uint64_t sequence, TimePoint now) {
  if (tombstones_.size() >= max_leases_) {
    const auto first = std::min_element(
        tombstones_.begin(), tombstones_.end(),
        [](const auto& a, const auto& b) { return a.second.until < b.second.until; });
    tombstones_.erase(first);
  }
  tombstones_[id] = {sequence, now + kTombstoneLife};
}

std::vector<PeerId> LeaseTable::expire(TimePoint now) {
  std::vector<PeerId> out;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const Entry& entry = it->second;
    if (now - entry.made < kLeaseTtl) {
      ++it;
      continue;
    }
    bury(it->first, entry.lease.sequence, now);
    bytes_ -= entry.signed_lease.body.size();
    out.push_back(it->first);
    it = entries_.erase(it);
  }
  std::erase_if(tombstones_, [&](const auto& t) { return t.second.until <= now; });
  return out;
}

const LeaseTable::Entry* LeaseTable::find(const PeerId& id) const {
  const auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : &it->second;
}

std::vector<LeaseEntry> LeaseTable::newer_than(const KnownVersions& known, TimePoint now) const {
  std::vector<const Entry*> newer;
  for (const auto& [id, entry] : entries_) {
    const auto it = known.find(id);
    if (it == known.end() || it->second < entry.lease.sequence) newer.push_back(&entry);
  }
  std::stable_sort(newer.begin(), newer.end(),
                   [](const Entry* a, const Entry* b) { return a->made > b->made; });
  News news(now);
  for (const Entry* entry : newer)
    if (!news.add(*entry)) break;
  return news.take();
}

std::vector<LeaseEntry> LeaseTable::leases_of(const std::vector<PeerId>& ids, TimePoint now) const {
  News news(now);
  for (const PeerId& id : ids)
    if (const Entry* entry = find(id); entry && !news.add(*entry)) break;
  return news.take();
}

std::vector<PeerId> LeaseTable::older_than(const KnownVersions& known) const {
  std::vector<PeerId> out;
  for (const auto& [id, sequence] : known) {
    if (out.size() == kMaxLeasesPerExchange) break;
    if (is_news(id, sequence)) out.push_back(id);
  }
  return out;
}

std::vector<LeaseVersion> LeaseTable::versions() const {
  std::vector<LeaseVersion> out;
  out.reserve(entries_.size() + tombstones_.size());
  for (const auto& [id, entry] : entries_) out.push_back({id, entry.lease.sequence});
  for (const auto& [id, tombstone] : tombstones_) out.push_back({id, tombstone.sequence});
  return out;
}

}  // namespace meadow::swarm
