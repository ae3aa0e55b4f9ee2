#include "swarm/invite.h"

#include <algorithm>

#include "base/check.h"
#include "base/wire.h"
#include "swarm/address.h"

namespace meadow::swarm {
namespace {

constexpr uint8_t kVersion = 1;
constexpr size_t kChecksumBytes = 4;

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

Result<void> check(const SwarmKey& swarm) {
  if (swarm.name.empty() || swarm.name.size() > kMaxNameBytes || !is_printable(swarm.name) ||
      swarm.name.find(':') != std::string::npos)
    return fail(Code::kInvalidArgument,
                "swarm name: expected 1 to {} printable ASCII characters without space and ':', "
                "got {} bytes",
                kMaxNameBytes, swarm.name.size());
  if (swarm.secret.size() > kMaxSecretBytes)
    return fail(Code::kInvalidArgument, "swarm secret: {} bytes, at most {} are allowed",
                swarm.secret.size(), kMaxSecretBytes);
  return {};
}

ByteView checksum(const Digest& digest) { return ByteView(digest.bytes).first(kChecksumBytes); }

Result<Invite> parse_body(WireReader& in) {
  Invite invite;
  invite.swarm.name = in.text(kMaxNameBytes);
  invite.swarm.secret = in.text(kMaxSecretBytes);
  invite.fingerprint = in.fixed<Digest>();
  const size_t peers = in.u8();
  if (peers > kMaxInvitePeers)
    return fail(Code::kInvalidArgument, "invite: {} peers, at most {} are allowed", peers,
                kMaxInvitePeers);
  for (size_t i = 0; i < peers && in.ok(); i++) {
    PeerAddress peer;
    peer.id = in.fixed<PeerId>();
    peer.address = in.text(kMaxAddressBytes);
    invite.peers.push_back(std::move(peer));
  }
  if (!in.at_end()) return fail(Code::kInvalidArgument, "invite: its parts do not fill its length");
  return invite;
}

}  // namespace

bool Invite::operator==(const Invite& other) const {
  return swarm.name == other.swarm.name && swarm.secret == other.swarm.secret &&
         peers == other.peers && fingerprint == other.fingerprint;
}

std::string Invite::text() const {
  MEADOW_CHECK(check(*this));
  WireWriter out;
  out.u8(kVersion);
  out.text(swarm.name);
  out.text(swarm.secret);
  out.fixed(fingerprint);
  out.u8(static_cast<uint8_t>(peers.size()));
  for (const PeerAddress& peer : peers) {
    out.fixed(peer.id);
    out.text(peer.address);
  }
  const Digest digest = sha256(out.bytes());
  out.raw(checksum(digest));
  return std::string(kInvitePrefix) + base64url(out.bytes());
}

std::string Invite::redacted() const {
  std::string out = fmt::format(
      "swarm {}, {}, {}, peers", swarm.name, swarm.secret.empty() ? "open" : "secret hidden",
      fingerprint.is_zero() ? std::string("any model") : "model " + hex(fingerprint, 4));
  for (const PeerAddress& peer : peers)
    out += fmt::format(" {}{}", peer.id.is_zero() ? "" : short_id(peer.id) + "@", peer.address);
  return out + (peers.empty() ? " none" : "");
}

Result<void> check(const Invite& invite) {
  MEADOW_TRY_VOID(check(invite.swarm));
  if (invite.peers.size() > kMaxInvitePeers)
    return fail(Code::kInvalidArgument, "invite: {} peers, at most {} are allowed",
                invite.peers.size(), kMaxInvitePeers);
  for (const PeerAddress& peer : invite.peers) MEADOW_TRY_VOID(parse_dialable(peer.address));
  return {};
}

Result<Invite> parse_invite(std::string_view text) {
  if (!looks_like_invite(text))
    return fail(Code::kInvalidArgument, "invite: expected text that begins with '{}'",
                kInvitePrefix);
  if (text.size() > kMaxInviteText)
    return fail(Code::kInvalidArgument, "invite: {} characters, at most {} are allowed",
                text.size(), kMaxInviteText);
  auto bytes = from_base64url(text.substr(kInvitePrefix.size()));
  if (!bytes || bytes->size() < 1 + kChecksumBytes)
    return fail(Code::kInvalidArgument, "invite: damaged; copy the whole string again");
  const size_t body_size = bytes->size() - kChecksumBytes;
  const ByteView body = ByteView(*bytes).first(body_size);
  if (body[0] != kVersion)
    return fail(Code::kUnsupported, "invite: version {}, this program reads {}", body[0], kVersion);
  const Digest digest = sha256(body);
  if (!std::ranges::equal(checksum(digest), ByteView(*bytes).subspan(body_size)))
    return fail(Code::kInvalidArgument, "invite: damaged; copy the whole string again");
  WireReader in(body.subspan(1));
  MEADOW_TRY(Invite invite, parse_body(in));
  MEADOW_TRY_VOID(check(invite));
  return invite;
}

Result<SwarmKey> parse_swarm(std::string_view text) {
  const size_t colon = text.find(':');
  SwarmKey swarm;
  swarm.name = text.substr(0, colon);
  if (colon != std::string_view::npos) {
    swarm.secret = text.substr(colon + 1);
    if (swarm.secret.empty())
      return fail(Code::kInvalidArgument,
                  "swarm '{}:': the secret is empty; leave out the colon for an open swarm",
                  is_printable(swarm.name) ? swarm.name : "?");
  }
  MEADOW_TRY_VOID(check(swarm));
  return swarm;
}

Result<PeerAddress> parse_peer(std::string_view text) {
  PeerAddress peer;
  const size_t at = text.find('@');
  if (at != std::string_view::npos) {
    auto bytes = from_hex(text.substr(0, at));
    if (!bytes || bytes->size() != PeerId::kSize)
      return fail(Code::kInvalidArgument,
                  "peer: expected host:port or id@host:port with an id of {} hexadecimal digits",
                  2 * PeerId::kSize);
    std::copy(bytes->begin(), bytes->end(), peer.id.bytes.begin());
    text.remove_prefix(at + 1);
  }
  MEADOW_TRY(const HostPort address, parse_dialable(text));
  peer.address = format(address);
  return peer;
}

std::string format(const PeerAddress& peer) {
  return peer.id.is_zero() ? peer.address : hex(peer.id) + "@" + peer.address;
}

}  // namespace meadow::swarm
