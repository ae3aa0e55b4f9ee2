// A lease: what a server says of itself, signed, numbered, short-lived. The signature is over the
// exact bytes that travel; nobody can announce, revive or withdraw another.
// Thread rule: values; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/identity.h"
#include "base/result.h"
#include "swarm/messages.h"

namespace meadow::swarm {

enum class ServerState : uint8_t {
  kJoining = 1,  // loading; counts for placement, not for routing
  kOnline = 2,   // answers
  kLeaving = 3,  // withdrawn; kept for a lease's time so that older leases cannot come back
};
std::string_view name(ServerState state);

constexpr Duration kLeaseTtl = 30s;  // by the reader's clock, from receipt
constexpr Duration kLeaseRenewal = 10s;
constexpr int32_t kMaxBlocks = 4096;  // of a model; bounds every list of blocks
constexpr size_t kMaxVersionBytes = 64;
constexpr size_t kMaxLinks = 32;  // round trips to other servers in one lease
constexpr size_t kMaxLeaseBytes = 2048 + 8 * size_t{kMaxBlocks};
// The end of a body: sequence, state and load, all that a mere renewal changes.
constexpr size_t kRenewedBytes = 45;
// Sequence numbers are 1 to this; nobody can push another's counter to its end.
constexpr uint64_t kMaxSequence = uint64_t{1} << 62;

// The content of one block, short: leases tell honest files apart; nobody is held to a hash that he
// signs himself.
using BlockHash = FixedBytes<struct BlockHashTag, 8>;
// The first bytes of the digest.
BlockHash block_hash_of(const Digest& content);

// From the announcing server to another one, measured.
struct Link {
  PeerId peer;
  float rtt_seconds = 0;
  bool operator==(const Link&) const = default;
};

// Tokens/s through ONE block; 0: not measured or not offered.
struct ServedSpeed {
  double decode = 0;    // one token of one session after another
  double prefill = 0;   // a prompt
  double forward = 0;   // a batch without cache
  double backward = 0;  // its gradient
  bool operator==(const ServedSpeed&) const = default;
};

struct Lease {
  PublicKey key;
  uint64_t sequence = 0;  // grows with every lease of this key, kept across restarts
  ServerState state = ServerState::kJoining;
  BlockRange blocks;
  int32_t n_blocks = 0;                 // of the whole model
  std::string address;                  // host:port to dial
  Digest fingerprint;                   // of the model file
  std::vector<BlockHash> block_hashes;  // one per block of `blocks`
  uint32_t numerics = 0;
  std::string version;             // of the program
  uint8_t codecs = 0;              // bit (1 << Codec)
  bool pinned = false;             // its operator chose the blocks: it never moves
  std::vector<Link> links;         // one a peer, at most kMaxLinks
  ServedSpeed speed;               // kept as f32
  double network_bytes_per_s = 0;  // its share between peers, kept as f32; 0: not known
  int64_t free_cache_tokens = 0;   // positions that a new session could reserve
  uint32_t sessions = 0;           // open now
  uint32_t queued_tokens = 0;      // waiting or in work now

  PeerId id() const { return peer_id_of(key); }
  bool operator==(const Lease&) const = default;
};

// `body` is what was signed; keep and pass on these very bytes.
struct SignedLease {
  Bytes body;
  Signature signature;
};

// What open() demands of the values. kInvalidArgument names the field.
Result<void> check(const Lease& lease);
// The canonical body with identity's signature; lease.key is set to identity's and speeds are
// rounded to f32. The lease must pass check().
SignedLease sign(Lease lease, const Identity& identity);
// Parses and verifies. kCorrupt: malformed, a value out of its range (finite, non-negative speeds
// and round trips, blocks inside the model, one hash per block, a dialable address); kUnsupported:
// another version of the encoding; kPermissionDenied: bad signature.
Result<Lease> open(const SignedLease& lease);
// Parses only (the fuzz target's entry).
Result<Lease> parse_lease(ByteView body);

}  // namespace meadow::swarm
