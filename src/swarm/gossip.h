// Messages and port of membership: rendezvous (addresses) and anti-entropy (leases).
// Thread rule: said at each port.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "swarm/lease.h"

namespace meadow::swarm {

// A swarm is a name and, optionally, a secret. Everything that its members prove or look up is
// derived from both.
struct SwarmKey {
  std::string name;
  std::string secret;  // empty: an open swarm

  Digest rendezvous() const;  // under which members announce and find each other
  Digest admission() const;   // HMAC key of the proof on first contact (docs/wire-format.md)
};

constexpr size_t kMaxLeasesPerExchange = 512;
constexpr size_t kMaxIntroductions = 64;

struct LeaseEntry {
  SignedLease lease;
  uint32_t age_ms = 0;  // since the sender received it (or made it); the reader adds it up
};
struct LeaseVersion {
  PeerId peer;
  uint64_t sequence = 0;
};

// "This is what I know; here is news; tell me yours." One round trip brings both up to date, up to
// kMaxLeasesPerExchange each way.
struct ExchangeRequest {
  std::vector<LeaseVersion> known;
  std::vector<LeaseEntry> news;
  std::string address;  // of the caller, to be dialled back; empty: a client
};
struct ExchangeReply {
  std::vector<LeaseEntry> news;  // newer than what the caller knows
  std::vector<PeerId> wanted;    // the caller has newer ones: send them with the next exchange
  std::vector<std::string> addresses;  // of other members, at most kMaxIntroductions
};

// Rendezvous by a bootstrap peer: "I am here under this key; who else?"
struct IntroduceRequest {
  Digest rendezvous;
  std::string address;  // empty: only asks
};
struct IntroduceReply {
  std::vector<std::string> addresses;
};

// Calls to other members by address; whoever answers is admitted (proof of the swarm's secret, both
// ways) but not trusted with data. From any thread; never blocks; `done` is called once, from any
// thread, at the latest when `deadline` passes, never from inside the call.
class MemberPort {
 public:
  virtual ~MemberPort() = default;
  virtual void exchange(const std::string& address, ExchangeRequest request, Deadline deadline,
                        std::function<void(Result<ExchangeReply>)> done) = 0;
  virtual void introduce(const std::string& address, IntroduceRequest request, Deadline deadline,
                         std::function<void(Result<IntroduceReply>)> done) = 0;
  // Round-trip time of an empty call on a link that stands.
  virtual void ping(const PeerAddress& peer, Deadline deadline,
                    std::function<void(Result<Duration>)> done) = 0;
};

// The other end: what a member answers. From any thread; must not block.
class MemberHandler {
 public:
  virtual ~MemberHandler() = default;
  virtual ExchangeReply exchange(const PeerId& from, const ExchangeRequest& request) = 0;
  virtual IntroduceReply introduce(const PeerId& from, const IntroduceRequest& request) = 0;
};

}  // namespace meadow::swarm
