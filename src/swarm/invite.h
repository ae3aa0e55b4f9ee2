// An invite: one string with all that a friend needs to join a swarm. It holds the secret, so logs
// and pages show redacted().
// Thread rule: values; pure functions.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "swarm/gossip.h"
#include "swarm/messages.h"

namespace meadow::swarm {

constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxSecretBytes = 128;
constexpr size_t kMaxInvitePeers = 16;
constexpr size_t kMaxInviteText = 16 << 10;
constexpr std::string_view kInvitePrefix = "meadow-";

struct Invite {
  SwarmKey swarm;
  std::vector<PeerAddress> peers;  // to begin with; id zero where only the address is known
  Digest fingerprint;              // of the model; zero: not told

  // "meadow-…" in base64url characters: safe in a shell, a chat, an address bar. The invite must
  // pass check().
  std::string text() const;
  // "swarm NAME, secret hidden, model 1a2b3c4d, peers 99aabbcc@host:port": never the secret.
  std::string redacted() const;
  bool operator==(const Invite& other) const;
};

// kInvalidArgument names what is out of bounds: name, secret, peers and their addresses.
Result<void> check(const Invite& invite);
// kInvalidArgument: no invite, damaged (a checksum tells a cut or mistyped one), or out of bounds;
// kUnsupported: of another version. The text of the error never holds the secret.
Result<Invite> parse_invite(std::string_view text);
inline bool looks_like_invite(std::string_view text) { return text.starts_with(kInvitePrefix); }

// "NAME" or "NAME:SECRET", as in --swarm. kInvalidArgument; the secret is never quoted.
Result<SwarmKey> parse_swarm(std::string_view text);
// "host:port" or "id@host:port" with the id in 64 hexadecimal digits, as in --join.
Result<PeerAddress> parse_peer(std::string_view text);
// The reverse; without id if that is zero.
std::string format(const PeerAddress& peer);

}  // namespace meadow::swarm
