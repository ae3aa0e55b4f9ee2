#include "swarm/lease.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/wire.h"
#include "swarm/address.h"

namespace meadow::swarm {
namespace {

// First bytes of every body: no other message of a key can be taken for a lease.
constexpr std::string_view kTag = "mdlease";
constexpr uint8_t kEncodingVersion = 2;
constexpr int64_t kMaxCacheTokens = int64_t{1} << 50;
constexpr double kMaxSpeed = 1e15;  // tokens/s or bytes/s
constexpr float kMaxRttSeconds = 3600;

bool is_speed(double v) { return std::isfinite(v) && v >= 0 && v <= kMaxSpeed; }
bool is_rtt(float v) { return std::isfinite(v) && v >= 0 && v <= kMaxRttSeconds; }

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

bool is_state(uint8_t v) {
  return v >= static_cast<uint8_t>(ServerState::kJoining) &&
         v <= static_cast<uint8_t>(ServerState::kLeaving);
}

Result<void> check_links(const std::vector<Link>& links) {
  if (links.size() > kMaxLinks)
    return fail(Code::kInvalidArgument, "lease: {} links, at most {} are allowed", links.size(),
                kMaxLinks);
  std::set<PeerId> peers;
  for (const Link& link : links)
    if (!is_rtt(link.rtt_seconds) || !peers.insert(link.peer).second)
      return fail(Code::kInvalidArgument, "lease: the link to {} is there twice or no time",
                  short_id(link.peer));
  return {};
}

Bytes encode(const Lease& lease) {
  WireWriter out;
  out.raw(as_bytes(kTag));
  out.u8(kEncodingVersion);
  out.fixed(lease.key);
  out.u32(static_cast<uint32_t>(lease.blocks.first));
  out.u32(static_cast<uint32_t>(lease.blocks.last));
  out.u32(static_cast<uint32_t>(lease.n_blocks));
  out.text(lease.address);
  out.fixed(lease.fingerprint);
  out.u32(lease.numerics);
  out.text(lease.version);
  out.u8(lease.codecs);
  out.u8(lease.pinned);
  // one hash per block: their number is known from `blocks`
  for (const BlockHash& hash : lease.block_hashes) out.fixed(hash);
  out.u8(static_cast<uint8_t>(lease.links.size()));
  for (const Link& link : lease.links) {
    out.fixed(link.peer);
    out.f32(link.rtt_seconds);
  }
  const size_t lasting = out.bytes().size();
  out.u64(lease.sequence);
  out.u8(static_cast<uint8_t>(lease.state));
  for (const double v : {lease.speed.decode, lease.speed.prefill, lease.speed.forward,
                         lease.speed.backward, lease.network_bytes_per_s})
    out.f32(static_cast<float>(v));
  out.u64(static_cast<uint64_t>(lease.free_cache_tokens));
  out.u32(lease.sessions);
  out.u32(lease.queued_tokens);
  MEADOW_CHECK(out.bytes().size() == lasting + kRenewedBytes);
  return out.take();
}

// A u32 that must be a small non-negative count; -1 (never valid) if it is not.
int32_t small(uint32_t v) { return v <= static_cast<uint32_t>(kMaxBlocks) ? int32_t(v) : -1; }

}  // namespace

BlockHash block_hash_of(const Digest& content) {
  BlockHash out;
  std::copy_n(content.bytes.begin(), BlockHash::kSize, out.bytes.begin());
  return out;
}

std::string_view name(ServerState state) {
  switch (state) {
    case ServerState::kJoining:
      return "joining";
    case ServerState::kOnline:
      return "online";
    case ServerState::kLeaving:
      return "leaving";
  }
  return "unknown";
}

Result<void> check(const Lease& lease) {
  if (lease.sequence == 0 || lease.sequence > kMaxSequence)
    return fail(Code::kInvalidArgument, "lease: sequence {} is out of range", lease.sequence);
  if (!is_state(static_cast<uint8_t>(lease.state)))
    return fail(Code::kInvalidArgument, "lease: unknown state {}", static_cast<int>(lease.state));
  if (lease.n_blocks < 1 || lease.n_blocks > kMaxBlocks || lease.blocks.first < 0 ||
      lease.blocks.empty() || lease.blocks.last > lease.n_blocks)
    return fail(Code::kInvalidArgument, "lease: blocks {}:{} of {} are no span of a model",
                lease.blocks.first, lease.blocks.last, lease.n_blocks);
  if (lease.block_hashes.size() != static_cast<size_t>(lease.blocks.size()))
    return fail(Code::kInvalidArgument, "lease: expected {} block hashes, got {}",
                lease.blocks.size(), lease.block_hashes.size());
  if (auto address = parse_dialable(lease.address); !address)
    return fail(Code::kInvalidArgument, "lease: {}", address.error().message);
  if (lease.version.size() > kMaxVersionBytes || !is_printable(lease.version))
    return fail(Code::kInvalidArgument, "lease: version is no text of at most {} characters",
                kMaxVersionBytes);
  for (const double v : {lease.speed.decode, lease.speed.prefill, lease.speed.forward,
                         lease.speed.backward, lease.network_bytes_per_s})
    if (!is_speed(v))
      return fail(Code::kInvalidArgument, "lease: a speed is negative, too large or no number");
  MEADOW_TRY_VOID(check_links(lease.links));
  if (lease.free_cache_tokens < 0 || lease.free_cache_tokens > kMaxCacheTokens)
    return fail(Code::kInvalidArgument, "lease: free cache of {} tokens is out of range",
                lease.free_cache_tokens);
  return {};
}

SignedLease sign(Lease lease, const Identity& identity) {
  lease.key = identity.public_key();
  MEADOW_CHECK(check(lease));
  SignedLease out;
  out.body = encode(lease);
  out.signature = identity.sign(out.body);
  return out;
}

Result<Lease> parse_lease(ByteView body) {
  if (body.size() > kMaxLeaseBytes)
    return fail(Code::kCorrupt, "lease: {} bytes, at most {} are allowed", body.size(),
                kMaxLeaseBytes);
  WireReader in(body);
  if (as_text(in.raw(kTag.size())) != kTag)
    return fail(Code::kCorrupt, "lease: does not begin with '{}'", kTag);
  const uint8_t version = in.u8();
  if (in.ok() && version != kEncodingVersion)
    return fail(Code::kUnsupported, "lease: encoding version {}, this program reads {}", version,
                kEncodingVersion);
  Lease lease;
  lease.key = in.fixed<PublicKey>();
  lease.blocks.first = small(in.u32());
  lease.blocks.last = small(in.u32());
  lease.n_blocks = small(in.u32());
  lease.address = in.text(kMaxAddressBytes);
  lease.fingerprint = in.fixed<Digest>();
  lease.numerics = in.u32();
  lease.version = in.text(kMaxVersionBytes);
  lease.codecs = in.u8();
  const uint8_t pinned = in.u8();
  lease.pinned = pinned != 0;
  const size_t blocks = lease.blocks.empty() ? 0 : static_cast<size_t>(lease.blocks.size());
  if (in.remaining() < blocks * BlockHash::kSize)
    return fail(Code::kCorrupt, "lease: expected {} block hashes, only {} bytes are left", blocks,
                in.remaining());
  lease.block_hashes.reserve(blocks);
  for (size_t i = 0; i < blocks; i++) lease.block_hashes.push_back(in.fixed<BlockHash>());
  const size_t links = in.u8();
  for (size_t i = 0; i < links && in.ok(); i++) {
    const PeerId peer = in.fixed<PeerId>();
    lease.links.push_back({peer, in.f32()});
  }
  lease.sequence = in.u64();
  lease.state = static_cast<ServerState>(in.u8());
  for (double* v : {&lease.speed.decode, &lease.speed.prefill, &lease.speed.forward,
                    &lease.speed.backward, &lease.network_bytes_per_s})
    *v = in.f32();
  lease.free_cache_tokens = static_cast<int64_t>(in.u64());
  lease.sessions = in.u32();
  lease.queued_tokens = in.u32();
  if (!in.at_end() || pinned > 1)
    return fail(Code::kCorrupt, "lease: {} bytes are not those of its fields", body.size());
  if (auto valid = check(lease); !valid) return fail(Code::kCorrupt, "{}", valid.error().message);
  return lease;
}

Result<Lease> open(const SignedLease& lease) {
  MEADOW_TRY(Lease parsed, parse_lease(lease.body));
  if (!verify(parsed.key, lease.body, lease.signature))
    return fail(Code::kPermissionDenied, "lease of {}: the signature is not by its key",
                short_id(parsed.id()));
  return parsed;
}

}  // namespace meadow::swarm
