#include "swarm/lease_table.h"

#include <gtest/gtest.h>

namespace meadow::swarm {
namespace {

constexpr TimePoint kStart{Duration{1'000'000'000'000}};

// Of a peer with `blocks` blocks; unsigned: the table trusts its caller.
std::pair<Lease, SignedLease> lease(uint8_t peer, uint64_t sequence, int32_t blocks = 1) {
  Lease out;
  out.key.bytes.fill(peer);
  out.sequence = sequence;
  out.blocks = {0, blocks};
  SignedLease signed_lease;
  signed_lease.body = Bytes(static_cast<size_t>(100 + 32 * blocks), peer);
  return {out, signed_lease};
}

class LeaseTableTest : public testing::Test {
 protected:
  Result<void> insert(uint8_t peer, uint64_t sequence, TimePoint now = kStart,
                      Duration age = Duration{}, int32_t blocks = 1) {
    auto [l, s] = lease(peer, sequence, blocks);
    return table.insert(l, s, age, now);
  }
  PeerId id(uint8_t peer) { return lease(peer, 1).first.id(); }

  LeaseTable table{8, 10'000};
};

TEST_F(LeaseTableTest, OnlyNewerLeasesReplace) {
  EXPECT_TRUE(insert(1, 5));
  for (const uint64_t old : {1, 4, 5})
    EXPECT_EQ(insert(1, old).error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(insert(1, 6));
  EXPECT_EQ(table.find(id(1))->lease.sequence, 6u);
  EXPECT_EQ(table.entries().size(), 1u);
}

TEST_F(LeaseTableTest, RunsOutByAgeAndLeavesATombstone) {
  EXPECT_TRUE(insert(1, 5, kStart, 10s));
  EXPECT_TRUE(insert(2, 5, kStart));
  EXPECT_TRUE(table.expire(kStart + 19s).empty());
  EXPECT_EQ(table.expire(kStart + 20s), std::vector<PeerId>{id(1)});
  EXPECT_FALSE(insert(1, 5, kStart + 20s));
  EXPECT_FALSE(table.is_news(id(1), 5));
  EXPECT_TRUE(table.is_news(id(1), 6));
  EXPECT_EQ(table.tombstones(), 1u);
  // tombstones travel as versions, so that nobody sends the old copy
  EXPECT_EQ(table.versions().size(), 2u);
  table.expire(kStart + 20s + kTombstoneLife);
  EXPECT_EQ(table.tombstones(), 1u);  // by now that of peer 2, which ran out meanwhile
  EXPECT_FALSE(insert(1, 5, kStart, kLeaseTtl));
}

TEST_F(LeaseTableTest, IsBoundedInNumberAndBytes) {
  for (uint8_t peer = 1; peer <= 8; peer++) EXPECT_TRUE(insert(peer, 1));
  EXPECT_EQ(insert(9, 1).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(insert(3, 2));  // a renewal needs no new place
  EXPECT_EQ(insert(3, 3, kStart, Duration{}, 300).error().code, Code::kResourceExhausted);
  EXPECT_EQ(table.find(id(3))->lease.sequence, 2u);
  table.expire(kStart + kLeaseTtl);
  EXPECT_EQ(table.tombstones(), 8u);
  EXPECT_TRUE(insert(9, 1, kStart + kLeaseTtl, Duration{}, 250));  // the bytes are free again
  table.expire(kStart + 2 * kLeaseTtl);
  EXPECT_EQ(table.tombstones(), 8u);  // one of the older made room
}

TEST_F(LeaseTableTest, TellsWhatOthersLackAndWhatItLacks) {
  insert(1, 5, kStart, 3s);
  insert(2, 7, kStart, 1s);
  insert(3, 9, kStart, 2s);
  const auto all = table.newer_than({}, kStart + 1s);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].age_ms, 2000u);  // the youngest first
  EXPECT_EQ(all[2].age_ms, 4000u);
  const auto some = table.newer_than({{id(1), 5}, {id(2), 6}, {id(3), 10}}, kStart);
  ASSERT_EQ(some.size(), 1u);
  EXPECT_EQ(some[0].lease.body, table.find(id(2))->signed_lease.body);
  EXPECT_EQ(table.older_than({{id(1), 5}, {id(2), 6}, {id(3), 10}}), std::vector<PeerId>{id(3)});
  EXPECT_EQ(table.older_than({{id(4), 1}}), std::vector<PeerId>{id(4)});
  EXPECT_EQ(table.leases_of({id(3), id(4)}, kStart).size(), 1u);
}

TEST(LeaseTableLimits, OneMessageStaysBelowItsBytes) {
  LeaseTable table(1000, 100 << 20);
  for (int i = 0; i < 80; i++) {
    Lease l;
    l.key.bytes[0] = static_cast<uint8_t>(i);
    l.sequence = 1;
    SignedLease s;
    s.body = Bytes(kMaxLeaseBytes);
    ASSERT_TRUE(table.insert(l, s, Duration{}, kStart));
  }
  const auto news = table.newer_than({}, kStart);
  EXPECT_EQ(news.size(), kMaxNewsBytes / (kMaxLeaseBytes + Signature::kSize));
}

}  // namespace
}  // namespace meadow::swarm
