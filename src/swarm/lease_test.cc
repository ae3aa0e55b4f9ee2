#include "swarm/lease.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"

namespace meadow::swarm {
namespace {

Identity identity(uint8_t n) { return Identity::from_seed(Bytes(32, n)); }

Lease sample() {
  Lease lease;
  lease.key = identity(1).public_key();
  lease.sequence = 42;
  lease.state = ServerState::kOnline;
  lease.blocks = {4, 7};
  lease.n_blocks = 30;
  lease.address = "[::1]:7000";
  lease.fingerprint = sha256("model");
  lease.block_hashes = {block_hash_of(sha256("4")), block_hash_of(sha256("5")),
                        block_hash_of(sha256("6"))};
  lease.numerics = 1;
  lease.version = "0.1.0";
  lease.codecs = 6;
  lease.pinned = true;
  lease.links = {{identity(2).id(), 0.25f}, {identity(3).id(), 0}};
  lease.speed = {812.5, 9000, 12000, 0};
  lease.network_bytes_per_s = 12.5e6;
  lease.free_cache_tokens = 4096;
  lease.sessions = 3;
  lease.queued_tokens = 130;
  return lease;
}

TEST(Lease, RoundTrips) {
  for (const ServerState state :
       {ServerState::kJoining, ServerState::kOnline, ServerState::kLeaving}) {
    Lease lease = sample();
    lease.state = state;
    EXPECT_EQ(open(sign(lease, identity(1))).value(), lease);
  }
}

// The bytes are the wire format: they change only with the encoding's version.
TEST(Lease, EncodingIsFrozen) {
  EXPECT_EQ(hex(sha256(sign(sample(), identity(1)).body)),
            "751bcbab76a02b031b4e5b99f01fd116537cea34e348a0f812e26d92dd07f78a");
}

TEST(Lease, SpeedsAreKeptAsFloats) {
  Lease lease = sample();
  lease.speed.decode = 1.0 / 3;
  EXPECT_EQ(open(sign(lease, identity(1)))->speed.decode, double(1.0f / 3));
}

// Renewals travel without what stays: everything before the last kRenewedBytes.
TEST(Lease, ARenewalChangesOnlyTheEnd) {
  Lease later = sample();
  later.sequence++;
  later.state = ServerState::kLeaving;
  later.speed = {1, 2, 3, 4};
  later.network_bytes_per_s = 5;
  later.free_cache_tokens = 6;
  later.sessions = 7;
  later.queued_tokens = 8;
  const Bytes a = sign(sample(), identity(1)).body;
  const Bytes b = sign(later, identity(1)).body;
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(std::equal(a.begin(), a.end() - kRenewedBytes, b.begin()));
}

TEST(Lease, SignedByAnotherKeyIsRefused) {
  SignedLease forged = sign(sample(), identity(1));
  forged.signature = identity(2).sign(forged.body);
  EXPECT_EQ(open(forged).error().code, Code::kPermissionDenied);
}

TEST(Lease, EveryChangedBitIsRefused) {
  const SignedLease good = sign(sample(), identity(1));
  for (size_t bit = 0; bit < good.body.size() * 8; bit++) {
    SignedLease bad = good;
    bad.body[bit / 8] ^= uint8_t(1 << (bit % 8));
    EXPECT_FALSE(open(bad)) << bit;
  }
}

TEST(Lease, EveryTruncationAndExtensionIsRefused) {
  const Bytes body = sign(sample(), identity(1)).body;
  for (size_t n = 0; n < body.size(); n++) EXPECT_FALSE(parse_lease(ByteView(body).first(n))) << n;
  Bytes longer = body;
  longer.push_back(0);
  EXPECT_FALSE(parse_lease(longer));
  EXPECT_FALSE(parse_lease(Bytes(kMaxLeaseBytes + 1, 0)));
}

TEST(Lease, OtherEncodingVersionsAreNamed) {
  Bytes body = sign(sample(), identity(1)).body;
  body[7] = 1;
  EXPECT_EQ(parse_lease(body).error().code, Code::kUnsupported);
}

TEST(Lease, ValuesOutOfRangeAreRefused) {
  const std::vector<std::function<void(Lease&)>> faults = {
      [](Lease& l) { l.sequence = 0; },
      [](Lease& l) { l.sequence = kMaxSequence + 1; },
      [](Lease& l) { l.state = static_cast<ServerState>(0); },
      [](Lease& l) { l.state = static_cast<ServerState>(4); },
      [](Lease& l) { l.blocks = {-1, 2}; },
      [](Lease& l) { l.blocks = {5, 5}; },
      [](Lease& l) { l.blocks = {28, 31}; },
      [](Lease& l) { l.n_blocks = 0; },
      [](Lease& l) { l.n_blocks = kMaxBlocks + 1; },
      [](Lease& l) { l.block_hashes.pop_back(); },
      [](Lease& l) { l.address = "nowhere"; },
      [](Lease& l) { l.address = "0.0.0.0:7000"; },
      [](Lease& l) { l.version = std::string(kMaxVersionBytes + 1, '1'); },
      [](Lease& l) { l.version = "\x1b[2J"; },
      [](Lease& l) { l.speed.decode = -1; },
      [](Lease& l) { l.speed.decode = std::nan(""); },
      [](Lease& l) { l.speed.prefill = std::numeric_limits<double>::infinity(); },
      [](Lease& l) { l.speed.forward = -0.5; },
      [](Lease& l) { l.speed.backward = 2e15; },
      [](Lease& l) { l.network_bytes_per_s = -1; },
      [](Lease& l) { l.links[0].rtt_seconds = std::nanf(""); },
      [](Lease& l) { l.links[0].rtt_seconds = -0.1f; },
      [](Lease& l) { l.links[1] = l.links[0]; },
      [](Lease& l) {
        l.links.clear();
        for (uint8_t n = 0; n <= kMaxLinks; n++) l.links.push_back({identity(n).id(), 1});
      },
      [](Lease& l) { l.free_cache_tokens = -1; },
      [](Lease& l) { l.free_cache_tokens = std::numeric_limits<int64_t>::max(); },
  };
  for (size_t i = 0; i < faults.size(); i++) {
    Lease lease = sample();
    faults[i](lease);
    EXPECT_FALSE(check(lease)) << i;
  }
  EXPECT_TRUE(check(sample()));
}

TEST(Lease, RandomBytesNeverPass) {
  Rng rng(3);
  const Bytes good = sign(sample(), identity(1)).body;
  for (int i = 0; i < 2000; i++) {
    Bytes body = good;  // keep the beginning, so that the depth is reached
    const size_t keep = rng.below(body.size());
    rng.fill(std::span(body).subspan(keep));
    const auto lease = parse_lease(body);
    if (lease) {  // only hashes or harmless values were hit: still inside all bounds
      EXPECT_TRUE(check(*lease));
    }
  }
}

}  // namespace
}  // namespace meadow::swarm
