#include "swarm/gossip.h"

namespace meadow::swarm {
namespace {

// The label tells the uses apart; the name comes last, so that no two pairs give the same bytes.
Digest derive(std::string_view label, const SwarmKey& swarm) {
  return hmac_sha256(as_bytes(swarm.secret), {as_bytes(label), as_bytes(swarm.name)});
}

}  // namespace

Digest SwarmKey::rendezvous() const { return derive("meadow rendezvous 1:", *this); }
Digest SwarmKey::admission() const { return derive("meadow admission 1:", *this); }

}  // namespace meadow::swarm
