#include "swarm/membership.h"

#include <algorithm>

#include "swarm/last_resort.h"
#include "swarm/membership_impl.h"

namespace meadow::swarm {
namespace {

// Members told at once of a new state; gossip does the rest.
constexpr size_t kTellAtOnce = 4;
constexpr size_t kTellLeaving = 8;
// Failed pings in a row after which a server is left out until it answers again.
constexpr int kMaxPingFailures = 3;

std::string_view major_minor(std::string_view version) {
  const size_t dot = version.find('.');
  return version.substr(0, dot == std::string_view::npos ? dot : version.find('.', dot + 1));
}

void set_load(Lease& lease, const Load& load) {
  lease.speed = load.speed;
  lease.network_bytes_per_s = load.network_bytes_per_s;
  lease.free_cache_tokens = load.free_cache_tokens;
  lease.sessions = load.sessions;
  lease.queued_tokens = load.queued_tokens;
  lease.links = load.links;
}

}  // namespace

Membership::Impl::Impl(MembershipOptions options, const Identity& identity, MemberPort& port,
                       Rendezvous& rendezvous, SequenceStore& sequence, const Clock& clock, Rng rng)
    : options_(std::move(options)),
      identity_(identity),
      port_(port),
      rendezvous_(rendezvous),
      sequence_(sequence),
      clock_(clock),
      rendezvous_key_(options_.swarm.rendezvous()),
      own_id_(identity.id()),
      rng_(rng),
      leases_(options_.max_leases, options_.max_lease_bytes),
      book_(options_.max_addresses) {
  book_.set_own(options_.address);
  for (const std::string& address : options_.remembered) book_.add(address);
}

void Membership::Impl::stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  idle_.wait(lock, [this] { return callbacks_ == 0; });
}

bool Membership::Impl::enter() {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  callbacks_++;
  return true;
}

void Membership::Impl::leave_callback() {
  const std::lock_guard lock(mutex_);
  if (--callbacks_ == 0) idle_.notify_all();
}

void Membership::Impl::set_address(const std::string& address) {
  const std::lock_guard lock(mutex_);
  options_.address = address;
  book_.set_own(address);
}

// ---- own lease ----------------------------------------------------------------------------------

Result<void> Membership::Impl::announce(const ServedSpan& span, ServerState state) {
  const std::lock_guard announcing(announcing_);
  return make_lease(Own{span, state, 0, {}});
}

Result<void> Membership::Impl::make_lease(Own own) {
  Lease lease;
  {
    const std::lock_guard lock(mutex_);
    lease.address = options_.address;
    lease.fingerprint = options_.fingerprint;
    lease.numerics = options_.numerics;
    lease.version = options_.version;
  }
  lease.key = identity_.public_key();
  lease.state = own.state;
  lease.blocks = own.span.blocks;
  lease.n_blocks = own.span.n_blocks;
  lease.block_hashes = own.span.block_hashes;
  lease.codecs = own.span.codecs;
  lease.pinned = own.span.pinned;
  set_load(lease, own.span.load);
  lease.sequence = 1;
  MEADOW_TRY_VOID(check(lease));  // before a number is spent
  MEADOW_TRY(lease.sequence, sequence_.next());
  SignedLease signed_lease = sign(std::move(lease), identity_);
  MEADOW_TRY(lease, parse_lease(signed_lease.body));  // as others read it

  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  const bool changed = !own_ || own_->state != own.state || own_->span.blocks != own.span.blocks;
  own.sequence = lease.sequence;
  own.renew_at = now + kLeaseRenewal;
  own_ = std::move(own);
  renew_now_ = false;
  pins_.pin(lease.blocks, lease.block_hashes);
  if (changed) to_tell_ = own_->state == ServerState::kLeaving ? kTellLeaving : kTellAtOnce;
  return leases_.insert(std::move(lease), std::move(signed_lease), Duration{}, now);
}

void Membership::Impl::update_load(const Load& load) {
  const std::lock_guard lock(mutex_);
  const LeaseTable::Entry* entry = own_ ? leases_.find(own_id_) : nullptr;
  if (!entry) return;
  Lease lease = entry->lease;
  set_load(lease, load);
  if (auto valid = check(lease))
    own_->span.load = load;
  else
    stats_.last_refusal = valid.error().message;
}

void Membership::Impl::leave() {
  const std::lock_guard announcing(announcing_);
  std::optional<Own> own;
  {
    const std::lock_guard lock(mutex_);
    own = own_;
  }
  if (!own || own->state == ServerState::kLeaving) return;
  own->state = ServerState::kLeaving;
  if (auto made = make_lease(*own); !made) {
    const std::lock_guard lock(mutex_);
    stats_.last_refusal = made.error().message;
  }
}

bool Membership::Impl::renewal_due(TimePoint now) const {
  // a lease that says "leaving" is said once and runs out
  return own_ && own_->state != ServerState::kLeaving && (renew_now_ || now >= own_->renew_at);
}

size_t Membership::Impl::announced_to() const {
  const std::lock_guard lock(mutex_);
  if (!own_) return 0;
  return static_cast<size_t>(
      std::count_if(book_.entries().begin(), book_.entries().end(),
                    [&](const auto& e) { return e.second.told >= own_->sequence; }));
}

void Membership::Impl::tick() {
  if (!enter()) return;
  {
    const std::lock_guard announcing(announcing_);
    std::optional<Own> renewal;
    {
      const std::lock_guard lock(mutex_);
      if (renewal_due(clock_.now())) renewal = own_;
    }
    if (renewal) {
      if (auto made = make_lease(*renewal); !made) {
        const std::lock_guard lock(mutex_);
        stats_.last_refusal = made.error().message;
        own_->renew_at = clock_.now() + 1s;
      }
    }
  }
  Actions actions;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = clock_.now();
    expire(now);
    collect_due(now, actions);
  }
  for (const auto& action : actions) action();
  leave_callback();
}

void Membership::Impl::expire(TimePoint now) {
  for (const PeerId& id : leases_.expire(now)) round_trips_.erase(id);
  penalties_.expire(now);
  std::erase_if(registered_, [&](const auto& r) { return r.second.until <= now; });
}

// ---- Directory ----------------------------------------------------------------------------------

std::optional<std::string> Membership::Impl::objection(const Lease& lease) const {
  if (major_minor(lease.version) != major_minor(options_.version))
    return fmt::format("version {}, this one is {}", lease.version, options_.version);
  if (options_.fingerprint.is_zero()) return std::nullopt;
  if (lease.fingerprint != options_.fingerprint)
    return fmt::format("model fingerprint {}, this one is {}", hex(lease.fingerprint, 4),
                       hex(options_.fingerprint, 4));
  if (lease.numerics != options_.numerics)
    return fmt::format("numerics {}, this one is {}", lease.numerics, options_.numerics);
  return pins_.objection(lease);
}

ServerInfo Membership::Impl::info_of(const LeaseTable::Entry& entry) const {
  ServerInfo out{{entry.lease.id(), entry.lease.address}, entry.lease, Duration{-1}};
  const auto it = round_trips_.find(out.peer.id);
  if (out.peer.id == own_id_) out.rtt = Duration{};
  if (it != round_trips_.end()) {
    out.rtt = it->second.average;
    out.silent = it->second.failures > 0;
  }
  return out;
}

std::vector<ServerInfo> Membership::Impl::online() {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  std::vector<const LeaseTable::Entry*> candidates;
  std::vector<const Lease*> voters;
  for (const auto& [id, entry] : leases_.entries()) {
    if (entry.lease.state != ServerState::kOnline || now - entry.made >= kLeaseTtl ||
        !fits(entry.lease))
      continue;
    candidates.push_back(&entry);
    voters.push_back(&entry.lease);
  }
  if (!options_.fingerprint.is_zero()) pins_.elect(voters);
  std::vector<ServerInfo> out, left_out;
  for (const LeaseTable::Entry* entry : candidates) {
    if (!fits(entry->lease)) continue;
    const PeerId id = entry->lease.id();
    const auto trip = round_trips_.find(id);
    const bool unreachable =
        trip != round_trips_.end() && trip->second.failures >= kMaxPingFailures;
    if (unreachable) continue;
    (penalties_.left_out(id, entry->made, now) ? left_out : out).push_back(info_of(*entry));
  }
  add_last_resorts(out, std::move(left_out));
  return out;
}

void Membership::Impl::report_failure(const PeerId& server) {
  const std::lock_guard lock(mutex_);
  penalties_.failed(server, clock_.now());
}

void Membership::Impl::report_full(const PeerId& server) {
  const std::lock_guard lock(mutex_);
  penalties_.full(server, clock_.now());
}

void Membership::Impl::report_success(const PeerId& server) {
  const std::lock_guard lock(mutex_);
  penalties_.succeeded(server);
  if (const auto it = round_trips_.find(server); it != round_trips_.end()) it->second.failures = 0;
}

// ---- what is known ------------------------------------------------------------------------------

std::vector<ServerInfo> Membership::Impl::servers() const {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  std::vector<ServerInfo> out;
  for (const auto& [id, entry] : leases_.entries())
    if (now - entry.made < kLeaseTtl && fits(entry.lease)) out.push_back(info_of(entry));
  return out;
}

std::vector<IgnoredServer> Membership::Impl::ignored() const {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  std::vector<IgnoredServer> out;
  for (const auto& [id, entry] : leases_.entries()) {
    if (now - entry.made >= kLeaseTtl) continue;
    if (auto reason = objection(entry.lease))
      out.push_back({{id, entry.lease.address}, std::move(*reason)});
  }
  return out;
}

bool Membership::Impl::connected() const {
  const std::lock_guard lock(mutex_);
  return connected_;
}

std::vector<std::string> Membership::Impl::known_addresses() const {
  const std::lock_guard lock(mutex_);
  return book_.by_last_answer();
}

std::vector<std::string> Membership::Impl::proven_addresses() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out = book_.by_last_answer();
  std::erase_if(out, [&](const std::string& address) {
    const auto it = book_.entries().find(address);
    return !it->second.answered() || it->second.failures > 0;
  });
  return out;
}

MembershipStats Membership::Impl::stats() const {
  const std::lock_guard lock(mutex_);
  MembershipStats out = stats_;
  out.leases = leases_.entries().size();
  out.tombstones = leases_.tombstones();
  out.addresses = book_.size();
  out.registered = registered_.size();
  return out;
}

// ---- the class itself ---------------------------------------------------------------------------

Membership::Membership(MembershipOptions options, const Identity& identity, MemberPort& port,
                       Rendezvous& rendezvous, SequenceStore& sequence, const Clock& clock, Rng rng)
    : impl_(std::make_shared<Impl>(std::move(options), identity, port, rendezvous, sequence, clock,
                                   rng)) {}
Membership::~Membership() { impl_->stop(); }

void Membership::tick() { impl_->tick(); }
void Membership::set_address(const std::string& address) { impl_->set_address(address); }
Result<void> Membership::announce(const ServedSpan& span, ServerState state) {
  MEADOW_TRY_VOID(impl_->announce(span, state));
  impl_->tick();
  return {};
}
void Membership::update_load(const Load& load) { impl_->update_load(load); }
void Membership::leave() {
  impl_->leave();
  impl_->tick();
}
size_t Membership::announced_to() const { return impl_->announced_to(); }
std::vector<ServerInfo> Membership::online() const { return impl_->online(); }
void Membership::report_failure(const PeerId& server, const Error&) {
  impl_->report_failure(server);
}
void Membership::report_full(const PeerId& server) { impl_->report_full(server); }
void Membership::report_success(const PeerId& server) { impl_->report_success(server); }
std::vector<ServerInfo> Membership::servers() const { return impl_->servers(); }
std::vector<IgnoredServer> Membership::ignored() const { return impl_->ignored(); }
std::vector<Unreachable> Membership::bootstrap_unreachable() const {
  return impl_->rendezvous().unreachable();
}
bool Membership::connected() const { return impl_->connected(); }
std::vector<std::string> Membership::known_addresses() const { return impl_->known_addresses(); }
std::vector<std::string> Membership::proven_addresses() const { return impl_->proven_addresses(); }
MembershipStats Membership::stats() const { return impl_->stats(); }
ExchangeReply Membership::exchange(const PeerId& from, const ExchangeRequest& request) {
  return impl_->exchange(from, request);
}
IntroduceReply Membership::introduce(const PeerId& from, const IntroduceRequest& request) {
  return impl_->introduce(from, request);
}

}  // namespace meadow::swarm
