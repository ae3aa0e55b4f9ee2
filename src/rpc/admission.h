// Who may use this peer: those that proved the swarm's secret. Proof, nonces and the set of the
// admitted; knows no transport. docs/wire-format.md has the handshake.
// Thread rule: any thread; never blocks. Borrows the clock.
#pragma once
#include <deque>
#include <mutex>
#include <unordered_map>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"

namespace meadow::rpc {

enum class Role { kClient, kServer };  // who dialled, who was dialled

constexpr uint32_t kProtocol = 1;  // of the wire contract; both ends must have the same

using Nonce = FixedBytes<struct NonceTag, 32>;

// Both public keys and both nonces of one handshake.
struct Handshake {
  PublicKey client_key, server_key;
  Nonce client_nonce, server_nonce;
};

// HMAC-SHA256(admission key, "meadow admission 1 client" or "... server", 0, client key,
// server key, client nonce, server nonce): proves the secret, for these two keys, once.
Digest admission_proof(const Digest& admission_key, Role role, const Handshake& handshake);

struct AdmissionLimits {
  size_t pending = 4096;  // handshakes begun and not finished; the oldest make room
  size_t pending_per_peer = 8;
  size_t admitted = 16384;  // the one whose admission ends first makes room
  Duration handshake = 10s;
  Duration admission = 3600s;  // then the peer proves again; each use prolongs it
};

class Admission {
 public:
  // `key`: SwarmKey::admission(); `own`: this peer's public key.
  Admission(Digest key, PublicKey own, const Clock& clock, AdmissionLimits limits = {});

  // First message of `client`: remembers both nonces, returns ours.
  Nonce hello(const PublicKey& client, const Nonce& client_nonce);
  // Second message: checks the client's proof for our `nonce`, which is spent by this whatever
  // comes of it; admits the client and returns our own proof. kPermissionDenied otherwise.
  Result<Digest> prove(const PublicKey& client, const Nonce& nonce, const Digest& proof);
  // True while `client` is admitted; prolongs its admission.
  bool admitted(const PublicKey& client);

  struct Sizes {
    size_t pending, admitted;
  };
  Sizes sizes() const;

 private:
  struct Pending {
    PublicKey client;
    Nonce client_nonce;
    TimePoint until;
  };
  void drop_pending(const Nonce& nonce);
  void expire(TimePoint now);
  void make_room_for_admitted(TimePoint now);

  const Digest key_;
  const PublicKey own_;
  const Clock& clock_;
  const AdmissionLimits limits_;
  mutable std::mutex mutex_;
  std::unordered_map<Nonce, Pending> pending_;
  std::deque<Nonce> pending_order_;  // oldest first; may name nonces that are spent
  std::unordered_map<PublicKey, std::deque<Nonce>> pending_of_;
  std::unordered_map<PublicKey, TimePoint> admitted_;  // until when
};

}  // namespace meadow::rpc
