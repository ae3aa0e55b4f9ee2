// The inside of Membership; included by its two sources only. membership.cc: what is asked of it
// from this process. membership_gossip.cc: what goes to and comes from other members.
// Thread rule: mutex_ guards everything below it; functions that say "locked" are called with it
// held. Calls on ports are collected as Actions and run after it is released.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "swarm/address_book.h"
#include "swarm/content_pins.h"
#include "swarm/lease_table.h"
#include "swarm/membership.h"
#include "swarm/penalties.h"

namespace meadow::swarm {

class Membership::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(MembershipOptions options, const Identity& identity, MemberPort& port,
       Rendezvous& rendezvous, SequenceStore& sequence, const Clock& clock, Rng rng);

  // See Membership.
  void set_address(const std::string& address);
  void tick();
  Result<void> announce(const ServedSpan& span, ServerState state);
  void update_load(const Load& load);
  void leave();
  size_t announced_to() const;
  std::vector<ServerInfo> online();
  void report_failure(const PeerId& server);
  void report_full(const PeerId& server);
  void report_success(const PeerId& server);
  std::vector<ServerInfo> servers() const;
  std::vector<IgnoredServer> ignored() const;
  bool connected() const;
  std::vector<std::string> proven_addresses() const;
  std::vector<std::string> known_addresses() const;
  MembershipStats stats() const;
  ExchangeReply exchange(const PeerId& from, const ExchangeRequest& request);
  IntroduceReply introduce(const PeerId& from, const IntroduceRequest& request);
  // Lets no further callback in and waits for those that run. Afterwards the ports may go.
  void stop();

  const Rendezvous& rendezvous() const { return rendezvous_; }

 private:
  using Actions = std::vector<std::function<void()>>;
  struct RoundTrip {
    Duration average{-1};  // negative: not measured
    int failures = 0;      // since the last answer
    TimePoint next = TimePoint::min();
    bool busy = false;
  };
  struct Registration {
    std::string address;
    TimePoint until;
  };
  struct Own {
    ServedSpan span;
    ServerState state = ServerState::kJoining;
    uint64_t sequence = 0;  // of the newest lease made
    TimePoint renew_at;
  };

  // Wraps a callback: it does nothing after stop(), and stop() waits for it.
  template <class F>
  auto guarded(F f) {
    return [weak = weak_from_this(), f = std::move(f)](auto&&... args) {
      const auto self = weak.lock();
      if (!self || !self->enter()) return;
      f(*self, std::forward<decltype(args)>(args)...);
      self->leave_callback();
    };
  }
  bool enter();
  void leave_callback();

  // ---- own lease ----
  bool renewal_due(TimePoint now) const;
  // Makes and keeps the next lease of `own`; replaces own_.
  Result<void> make_lease(Own own);

  // ---- what is due (locked) ----
  void collect_due(TimePoint now, Actions& actions);
  void collect_rendezvous(TimePoint now, Actions& actions);
  void collect_exchanges(TimePoint now, Actions& actions);
  void collect_pings(TimePoint now, Actions& actions);
  void start_exchange(const std::string& address, bool follow_up, TimePoint now, Actions& actions);
  void expire(TimePoint now);

  // ---- what comes back ----
  void on_found(std::vector<std::string> addresses);
  void on_exchanged(const std::string& address, bool follow_up, uint64_t told,
                    Result<ExchangeReply> reply);
  void on_pinged(const PeerId& id, Result<Duration> rtt);
  // Keeps what is new and true of a message's leases; checks signatures without the lock.
  void absorb(const std::vector<LeaseEntry>& news);
  void keep(Lease lease, const SignedLease& signed_lease, Duration age, TimePoint now);  // locked

  // ---- what is known (locked) ----
  std::optional<std::string> objection(const Lease& lease) const;
  bool fits(const Lease& lease) const { return !objection(lease); }
  bool knows_servers() const;
  ServerInfo info_of(const LeaseTable::Entry& entry) const;

  MembershipOptions options_;
  const Identity identity_;
  MemberPort& port_;
  Rendezvous& rendezvous_;
  SequenceStore& sequence_;
  const Clock& clock_;
  const Digest rendezvous_key_;
  const PeerId own_id_;

  std::mutex announcing_;  // taken before mutex_: own leases are made one after another

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  int callbacks_ = 0;  // running now
  bool stopped_ = false;
  Rng rng_;
  LeaseTable leases_;
  AddressBook book_;
  Penalties penalties_;
  ContentPins pins_;
  std::map<PeerId, RoundTrip> round_trips_;
  std::map<PeerId, Registration> registered_;  // by introduce: one address a peer
  std::optional<Own> own_;
  bool renew_now_ = false;  // the swarm remembers a newer lease of ours than we do
  size_t to_tell_ = 0;      // members that are still to be told the own lease at once
  size_t calls_ = 0;        // exchanges under way
  TimePoint next_round_ = TimePoint::min();
  TimePoint next_rendezvous_ = TimePoint::min();
  bool connected_ = false;
  MembershipStats stats_;
};

}  // namespace meadow::swarm
