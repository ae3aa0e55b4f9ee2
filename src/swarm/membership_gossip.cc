#include <algorithm>
#include <set>

#include "swarm/address.h"
#include "swarm/membership_impl.h"

namespace meadow::swarm {
namespace {

constexpr size_t kMaxCalls = 16;        // exchanges under way at once
constexpr size_t kMaxPings = 16;        // pings under way at once
constexpr Duration kPingPause = 20ms;   // between two pings, on average, in a large swarm
constexpr size_t kEagerCalls = 4;       // while no server is known
constexpr Duration kLonelyPeriod = 5s;  // between rendezvous while nobody has answered
constexpr Duration kRegistrationLife = 90s;
constexpr size_t kMaxRegistered = 1024;
constexpr double kRttWeight = 0.2;  // of a new measurement in the average

// A message's lease that passed: what absorb() carries from the checks to the table.
struct Verified {
  Lease lease;
  const LeaseEntry* entry;
};

KnownVersions known_versions(const std::vector<LeaseVersion>& versions, size_t limit) {
  KnownVersions out;
  for (size_t i = 0; i < std::min(versions.size(), limit); i++) {
    uint64_t& sequence = out[versions[i].peer];
    sequence = std::max(sequence, versions[i].sequence);
  }
  return out;
}

}  // namespace

// ---- what is due --------------------------------------------------------------------------------

void Membership::Impl::collect_due(TimePoint now, Actions& actions) {
  collect_rendezvous(now, actions);
  collect_exchanges(now, actions);
  if (options_.measure_rtt) collect_pings(now, actions);
}

void Membership::Impl::collect_rendezvous(TimePoint now, Actions& actions) {
  if (now < next_rendezvous_) return;
  next_rendezvous_ = now + (connected_ ? options_.rendezvous_period : kLonelyPeriod);
  actions.push_back([this, address = options_.address, deadline = now + options_.call_timeout] {
    rendezvous_.meet(rendezvous_key_, address, Deadline(deadline),
                     guarded([](Impl& self, std::vector<std::string> addresses) {
                       self.on_found(std::move(addresses));
                     }));
  });
}

void Membership::Impl::collect_exchanges(TimePoint now, Actions& actions) {
  const auto call = [&](size_t n, const std::function<bool(const AddressBook::Entry&)>& accept) {
    const auto chosen =
        book_.pick(std::min(n, kMaxCalls - std::min(calls_, kMaxCalls)), now, rng_, accept);
    for (const std::string& address : chosen) start_exchange(address, false, now, actions);
    return chosen.size();
  };
  if (own_ && to_tell_ > 0)
    to_tell_ -= call(to_tell_, [&](const auto& e) { return e.told < own_->sequence; });
  if (!knows_servers() && calls_ < kEagerCalls)
    call(kEagerCalls - calls_, [](const auto& e) { return !e.answered(); });
  if (now < next_round_) return;
  // a round without a partner is not spent: the first address that comes gets it
  if (call(options_.exchange_fanout, {}) > 0)
    next_round_ =
        now + from_seconds(seconds(options_.exchange_period) * (0.9 + rng_.uniform() / 5));
}

void Membership::Impl::start_exchange(const std::string& address, bool follow_up, TimePoint now,
                                      Actions& actions) {
  AddressBook::Entry* partner = book_.find(address);
  if (!partner) return;
  partner->busy = true;
  calls_++;
  ExchangeRequest request;
  request.address = options_.address;
  request.known = leases_.versions();
  std::vector<PeerId> send = std::exchange(partner->wanted, {});
  const bool tell = own_ && partner->told < own_->sequence;
  if (tell) send.insert(send.begin(), own_id_);
  request.news = leases_.leases_of(send, now);
  const uint64_t told = tell ? own_->sequence : partner->told;
  actions.push_back([this, address, follow_up, told, request = std::move(request),
                     deadline = Deadline(now + options_.call_timeout)]() mutable {
    port_.exchange(address, std::move(request), deadline,
                   guarded([address, follow_up, told](Impl& self, Result<ExchangeReply> reply) {
                     self.on_exchanged(address, follow_up, told, std::move(reply));
                   }));
  });
}

void Membership::Impl::collect_pings(TimePoint now, Actions& actions) {
  size_t under_way = static_cast<size_t>(std::count_if(
      round_trips_.begin(), round_trips_.end(), [](const auto& t) { return t.second.busy; }));
  const auto wanted = [&](const PeerId& id, const Lease& lease) {
    if (id == own_id_ || lease.state != ServerState::kOnline || !fits(lease)) return false;
    // A server wants to know those that may come after it in a chain.
    return !own_ || (lease.blocks.first <= own_->span.blocks.last &&
                     lease.blocks.last > own_->span.blocks.first + 1);
  };
  const auto count = std::count_if(leases_.entries().begin(), leases_.entries().end(),
                                   [&](const auto& e) { return wanted(e.first, e.second.lease); });
  const Duration period = std::max<Duration>(options_.ping_period, count * kPingPause);
  for (const auto& [id, entry] : leases_.entries()) {
    if (under_way >= kMaxPings) return;
    if (!wanted(id, entry.lease)) continue;
    RoundTrip& trip = round_trips_[id];
    if (trip.busy || now < trip.next) continue;
    trip.busy = true;
    trip.next = now + period;
    under_way++;
    actions.push_back([this, peer = PeerAddress{id, entry.lease.address},
                       deadline = Deadline(now + options_.call_timeout)] {
      port_.ping(peer, deadline, guarded([id = peer.id](Impl& self, Result<Duration> rtt) {
                   self.on_pinged(id, std::move(rtt));
                 }));
    });
  }
}

bool Membership::Impl::knows_servers() const {
  return std::any_of(leases_.entries().begin(), leases_.entries().end(), [&](const auto& e) {
    return e.first != own_id_ && e.second.lease.state == ServerState::kOnline &&
           fits(e.second.lease);
  });
}

// ---- what comes back ----------------------------------------------------------------------------

void Membership::Impl::on_found(std::vector<std::string> addresses) {
  Actions actions;
  {
    const std::lock_guard lock(mutex_);
    connected_ = true;
    for (size_t i = 0; i < std::min(addresses.size(), kMaxIntroductions); i++)
      book_.add(addresses[i]);
    collect_exchanges(clock_.now(), actions);
  }
  for (const auto& action : actions) action();
}

void Membership::Impl::on_exchanged(const std::string& address, bool follow_up, uint64_t told,
                                    Result<ExchangeReply> reply) {
  if (reply) absorb(reply->news);
  Actions actions;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = clock_.now();
    calls_--;
    stats_.exchanges++;
    AddressBook::Entry* partner = book_.find(address);
    if (!reply) {
      stats_.exchanges_failed++;
      if (partner && own_ && partner->told < own_->sequence && to_tell_ < kMaxCalls) to_tell_++;
      book_.failed(address, now);
    } else {
      connected_ = true;
      for (size_t i = 0; i < std::min(reply->addresses.size(), kMaxIntroductions); i++)
        book_.add(reply->addresses[i]);
      book_.answered(address, now);
      partner = book_.find(address);
      if (partner) {
        partner->told = std::max(partner->told, told);
        if (reply->wanted.size() > kMaxLeasesPerExchange)
          reply->wanted.resize(kMaxLeasesPerExchange);
        partner->wanted = std::move(reply->wanted);
        const bool can_give =
            std::any_of(partner->wanted.begin(), partner->wanted.end(),
                        [&](const PeerId& id) { return leases_.find(id) != nullptr; });
        if (can_give && !follow_up) start_exchange(address, true, now, actions);
      }
    }
    collect_due(now, actions);
  }
  for (const auto& action : actions) action();
}

void Membership::Impl::on_pinged(const PeerId& id, Result<Duration> rtt) {
  const std::lock_guard lock(mutex_);
  const auto it = round_trips_.find(id);
  if (it == round_trips_.end()) return;
  RoundTrip& trip = it->second;
  trip.busy = false;
  if (!rtt) {
    trip.failures++;
    return;
  }
  trip.failures = 0;
  trip.average =
      trip.average < Duration{}
          ? *rtt
          : from_seconds((1 - kRttWeight) * seconds(trip.average) + kRttWeight * seconds(*rtt));
}

void Membership::Impl::absorb(const std::vector<LeaseEntry>& news) {
  std::vector<Verified> verified;
  uint64_t refused = 0;
  std::string why;
  size_t bytes = 0;
  for (size_t i = 0; i < std::min(news.size(), kMaxLeasesPerExchange); i++) {
    bytes += news[i].lease.body.size();
    if (bytes > 2 * kMaxNewsBytes) break;
    auto lease = parse_lease(news[i].lease.body);
    if (lease) {
      {
        const std::lock_guard lock(mutex_);
        if (!leases_.is_news(lease->id(), lease->sequence)) continue;
      }
      if (verify(lease->key, news[i].lease.body, news[i].lease.signature)) {
        verified.push_back({std::move(*lease), &news[i]});
        continue;
      }
      why = fmt::format("lease of {}: the signature is not by its key", short_id(lease->id()));
    } else {
      why = lease.error().message;
    }
    refused++;
    // members check before they pass on: whoever sends a broken lease is not worth more work;
    // a newer encoding is no fault
    if (lease || lease.error().code != Code::kUnsupported) break;
  }
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  stats_.leases_refused += refused;
  if (refused > 0) stats_.last_refusal = why;
  for (Verified& v : verified)
    keep(std::move(v.lease), v.entry->lease, v.entry->age_ms * Duration(1ms), now);
}

void Membership::Impl::keep(Lease lease, const SignedLease& signed_lease, Duration age,
                            TimePoint now) {
  if (lease.id() == own_id_) {
    // of an earlier run whose counter was lost: go on above it
    if (own_ && lease.sequence <= own_->sequence) return;
    sequence_.raise(lease.sequence);
    renew_now_ = true;
    return;
  }
  const std::string address = lease.address;
  const PeerId id = lease.id();
  const bool leaving = lease.state == ServerState::kLeaving;
  if (auto kept = leases_.insert(std::move(lease), signed_lease, age, now); !kept) {
    if (kept.error().code != Code::kResourceExhausted) return;
    stats_.leases_refused++;
    stats_.last_refusal = kept.error().message;
    return;
  }
  stats_.leases_accepted++;
  if (leaving)
    round_trips_.erase(id);
  else
    book_.add(address);
}

// ---- MemberHandler ------------------------------------------------------------------------------

ExchangeReply Membership::Impl::exchange(const PeerId& from, const ExchangeRequest& request) {
  if (!enter()) return {};
  absorb(request.news);
  ExchangeReply reply;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = clock_.now();
    stats_.exchanges_answered++;
    if (from != own_id_) connected_ = true;
    book_.add(request.address);
    expire(now);
    const KnownVersions known = known_versions(request.known, 2 * options_.max_leases);
    reply.news = leases_.newer_than(known, now);
    reply.wanted = leases_.older_than(known);
    reply.addresses = book_.sample(kMaxIntroductions - 1, rng_);
    std::erase(reply.addresses, request.address);
    if (!options_.address.empty()) reply.addresses.push_back(options_.address);
  }
  leave_callback();
  return reply;
}

IntroduceReply Membership::Impl::introduce(const PeerId& from, const IntroduceRequest& request) {
  IntroduceReply reply;
  const std::lock_guard lock(mutex_);
  if (stopped_ || request.rendezvous != rendezvous_key_) return reply;
  const TimePoint now = clock_.now();
  expire(now);
  if (from != own_id_) connected_ = true;
  std::set<std::string> found;
  std::vector<std::string> registered;
  for (const auto& [id, registration] : registered_)
    if (id != from) registered.push_back(registration.address);
  keep_random(registered, kMaxIntroductions - 1, rng_);
  found.insert(registered.begin(), registered.end());
  for (std::string& address : book_.sample(kMaxIntroductions - 1 - found.size(), rng_))
    found.insert(std::move(address));
  if (!options_.address.empty()) found.insert(options_.address);
  if (const auto address = parse_dialable(request.address)) {
    const std::string text = format(*address);
    found.erase(text);
    if (registered_.size() >= kMaxRegistered && !registered_.contains(from))
      registered_.erase(std::min_element(
          registered_.begin(), registered_.end(),
          [](const auto& a, const auto& b) { return a.second.until < b.second.until; }));
    registered_[from] = {text, now + kRegistrationLife};
    book_.add(text);
  }
  reply.addresses.assign(found.begin(), found.end());
  return reply;
}

}  // namespace meadow::swarm
