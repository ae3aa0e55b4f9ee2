#include "server/neighbours.h"

#include <gtest/gtest.h>

namespace meadow::server {
namespace {

PeerId id(int n) {
  PeerId out;
  out.bytes[0] = static_cast<uint8_t>(n);
  out.bytes[1] = static_cast<uint8_t>(n >> 8);
  return out;
}

swarm::ServerInfo server(int n, BlockRange blocks, Duration rtt) {
  swarm::ServerInfo out;
  out.peer = {id(n), "h:1"};
  out.lease.state = swarm::ServerState::kOnline;
  out.lease.blocks = blocks;
  out.rtt = rtt;
  return out;
}

TEST(Neighbours, WhoMayFollow) {
  EXPECT_TRUE(may_follow({4, 8}, {8, 12}));
  EXPECT_TRUE(may_follow({4, 8}, {0, 12}));
  EXPECT_TRUE(may_follow({4, 8}, {5, 6}));  // entered after block 4
  EXPECT_TRUE(may_follow({4, 8}, {4, 8}));
  EXPECT_FALSE(may_follow({4, 8}, {0, 5}));  // ends with own's first block
  EXPECT_FALSE(may_follow({4, 8}, {9, 12}));
  EXPECT_FALSE(may_follow({4, 8}, {0, 4}));
}

TEST(Neighbours, TheNearestOfThoseThatMayComeNext) {
  std::vector<swarm::ServerInfo> servers = {server(1, {0, 4}, 1ms),  server(2, {4, 8}, 50ms),
                                            server(3, {2, 6}, 20ms), server(4, {4, 8}, -1ms),
                                            server(5, {6, 8}, 1ms),  server(9, {4, 8}, 5ms),
                                            server(7, {1, 3}, 30ms)};
  const auto links = likely_next(servers, id(9), {0, 4});
  ASSERT_EQ(links.size(), 4u);  // not itself, not the unmeasured one, not one that begins too late
  EXPECT_EQ(links[0].peer, id(1));
  EXPECT_EQ(links[1].peer, id(3));
  EXPECT_EQ(links[2].peer, id(7));
  EXPECT_EQ(links[3].peer, id(2));
  EXPECT_FLOAT_EQ(links[3].rtt_seconds, 0.05f);
  // those that hold the next block come before nearer ones that do not
  for (int i = 0; i < 100; i++) servers.push_back(server(100 + i, {1, 3}, 2ms));
  const auto many = likely_next(servers, id(9), {0, 4});
  ASSERT_EQ(many.size(), swarm::kMaxLinks);
  EXPECT_EQ(many.back().peer, id(2));
}

class FakeProbes final : public swarm::ProbePort {
 public:
  void probe(const swarm::PeerAddress& peer, uint32_t bytes, Deadline,
             std::function<void(Result<Duration>)> done) override {
    EXPECT_EQ(bytes, swarm::kMaxProbeBytes);
    asked.push_back(peer.id);
    done(answer);
  }
  std::vector<PeerId> asked;
  Result<Duration> answer = Duration(20ms);
};

TEST(NetworkMeter, MedianOfProbesOnePerPeriod) {
  ManualClock clock;
  FakeProbes probes;
  NetworkMeter meter(probes, clock, Rng(1));
  const std::vector<swarm::ServerInfo> servers = {server(1, {0, 4}, 10ms), server(9, {0, 4}, 0ms)};
  meter.tick({}, id(9));
  EXPECT_TRUE(probes.asked.empty());
  clock.advance(NetworkMeter::kFirstPeriod);
  meter.tick(servers, id(9));
  EXPECT_EQ(probes.asked, std::vector{id(1)});
  EXPECT_NEAR(meter.bytes_per_s(), 2.0 * swarm::kMaxProbeBytes / 0.010, 1);
  meter.tick(servers, id(9));
  EXPECT_EQ(probes.asked.size(), 1u);
  for (int i = 0; i < 10; i++) {
    clock.advance(NetworkMeter::kPeriod);
    probes.answer = i % 3 == 0 ? Duration(5s) : Duration(30ms);
    meter.tick(servers, id(9));
  }
  EXPECT_EQ(probes.asked.size(), 11u);
  EXPECT_NEAR(meter.bytes_per_s(), 2.0 * swarm::kMaxProbeBytes / 0.020, 1);
  probes.answer = fail(Code::kUnavailable, "gone");
  clock.advance(NetworkMeter::kPeriod);
  meter.tick(servers, id(9));
  EXPECT_GT(meter.bytes_per_s(), 0);
}

}  // namespace
}  // namespace meadow::server
