// Who is in the swarm, as one member knows it: finds others by rendezvous, exchanges signed leases
// with them (anti-entropy), announces its own, measures round trips, remembers who failed. Server,
// client and bootstrap peer are the same class: a client has no address, a bootstrap peer announces
// no blocks.
// Thread rule: every function from any thread; none blocks on the network (announcing may write the
// sequence file). One lock, held briefly, never during a callback or a signature check. Borrows its
// ports, which must outlive it; callbacks that come after its end do nothing.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/identity.h"
#include "base/rng.h"
#include "swarm/directory.h"
#include "swarm/gossip.h"
#include "swarm/rendezvous.h"
#include "swarm/sequence.h"

namespace meadow::swarm {

struct MembershipOptions {
  SwarmKey swarm;
  std::string address;       // own, to be dialled by others; empty: a client
  Digest fingerprint;        // of the model wanted; zero: of any (bootstrap peer, status)
  uint32_t numerics = 0;     // ignored where the fingerprint is zero
  std::string version;       // of this program, "major.minor.patch"; major.minor must agree
  bool measure_rtt = false;  // ping the servers of this model (clients)

  std::vector<std::string> remembered;  // addresses of members that answered in an earlier run

  Duration exchange_period = 2s;     // between two rounds of gossip
  size_t exchange_fanout = 2;        // partners per round
  Duration rendezvous_period = 30s;  // once others are known; 5 s as long as nobody is
  Duration call_timeout = 3s;        // of one exchange, introduction or ping
  Duration ping_period = 5s;         // of one server

  size_t max_leases = 4096;
  size_t max_lease_bytes = 64 << 20;  // of all bodies kept
  size_t max_addresses = 1024;
};

// What changes often of what a server says.
struct Load {
  int64_t free_cache_tokens = 0;  // positions that a new session could reserve
  uint32_t sessions = 0;          // open now
  uint32_t queued_tokens = 0;     // waiting or in work now
  ServedSpeed speed;
  double network_bytes_per_s = 0;  // 0: not known
  std::vector<Link> links;         // measured round trips to other servers
};

// What a server says in its leases, apart from what Membership knows itself.
struct ServedSpan {
  BlockRange blocks;
  int32_t n_blocks = 0;                 // of the whole model
  std::vector<BlockHash> block_hashes;  // one per block of `blocks`
  uint8_t codecs = 0;                   // bit (1 << Codec)
  bool pinned = false;                  // never moves
  Load load;
};

// A server of this swarm that cannot serve this member, and why.
struct IgnoredServer {
  PeerAddress peer;
  std::string reason;  // "model fingerprint 1a2b3c4d, this one is 99aabbcc"
};

struct MembershipStats {
  size_t leases = 0, tombstones = 0, addresses = 0, registered = 0;
  uint64_t exchanges = 0, exchanges_failed = 0, exchanges_answered = 0;
  uint64_t leases_accepted = 0, leases_refused = 0;
  std::string last_refusal;  // of a lease of another, or of making the own one: why
};

class Membership final : public Directory, public MemberHandler {
 public:
  Membership(MembershipOptions options, const Identity& identity, MemberPort& port,
             Rendezvous& rendezvous, SequenceStore& sequence, const Clock& clock, Rng rng);
  ~Membership() override;
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Does what is due: rendezvous, gossip, renewal, pings, expiry. Call it every 100 ms or so;
  // answers are acted upon as they come.
  void tick();

  // Own address, where the port became known only after the start. Call it before the first tick.
  void set_address(const std::string& address);

  // ---- own lease (servers) ----------------------------------------------------------------------

  // Announces the span in this state, to several members at once, and from then on renews it. Say
  // kOnline only once the server answers. kInvalidArgument: no address, or a value that a lease may
  // not have; kUnavailable: the sequence cannot be stored.
  Result<void> announce(const ServedSpan& span, ServerState state);
  // For the next renewal: what changes often. A load that a lease may not say is ignored and named
  // in stats().last_refusal.
  void update_load(const Load& load);
  // Withdraws: announces kLeaving to several members at once. Nothing to do without a lease.
  void leave();
  // Members that took the newest own lease so far. A server that leaves waits (briefly) for one.
  size_t announced_to() const;

  // ---- Directory --------------------------------------------------------------------------------

  std::vector<ServerInfo> online() const override;
  void report_failure(const PeerId& server, const Error& why) override;
  void report_full(const PeerId& server) override;
  void report_success(const PeerId& server) override;

  // ---- what is known ----------------------------------------------------------------------------

  // All servers of this model by id, own lease included, in any state (leaving ones too), penalties
  // or not: for status and for placement, which counts kJoining and kOnline.
  std::vector<ServerInfo> servers() const;
  // Servers left out for their model, numerics or version.
  std::vector<IgnoredServer> ignored() const;
  // Places of rendezvous that do not answer: known within call_timeout of the first tick.
  std::vector<Unreachable> bootstrap_unreachable() const;
  // True once any other member has answered.
  bool connected() const;
  // Addresses of other members that have answered, worth remembering, the last first.
  std::vector<std::string> proven_addresses() const;
  // Addresses of other members, those that answered last first.
  std::vector<std::string> known_addresses() const;
  MembershipStats stats() const;

  // ---- MemberHandler ----------------------------------------------------------------------------

  ExchangeReply exchange(const PeerId& from, const ExchangeRequest& request) override;
  IntroduceReply introduce(const PeerId& from, const IntroduceRequest& request) override;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace meadow::swarm
