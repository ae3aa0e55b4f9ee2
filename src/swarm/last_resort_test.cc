#include "swarm/last_resort.h"

#include <gtest/gtest.h>

namespace meadow::swarm {
namespace {

ServerInfo server(uint8_t n, BlockRange blocks) {
  ServerInfo out;
  out.peer.id.bytes.fill(n);
  out.lease.blocks = blocks;
  return out;
}

TEST(LastResort, OnlyThoseThatAloneHoldABlockComeBack) {
  std::vector<ServerInfo> online = {server(2, {0, 4}), server(5, {6, 8})};
  add_last_resorts(online, {server(1, {0, 4}), server(3, {3, 7}), server(4, {6, 8})});
  ASSERT_EQ(online.size(), 3u);
  EXPECT_EQ(online[0].peer.id, server(2, {}).peer.id);
  EXPECT_EQ(online[1].peer.id, server(3, {}).peer.id);  // blocks 4 and 5 are its alone
  EXPECT_TRUE(online[1].left_out);
  EXPECT_FALSE(online[0].left_out);
  EXPECT_FALSE(online[2].left_out);
}

TEST(LastResort, BothOfTwoThatFailedComeBack) {
  std::vector<ServerInfo> online;
  add_last_resorts(online, {server(1, {0, 4}), server(2, {0, 4})});
  EXPECT_EQ(online.size(), 2u);
  add_last_resorts(online, {});
  EXPECT_EQ(online.size(), 2u);
}

}  // namespace
}  // namespace meadow::swarm
