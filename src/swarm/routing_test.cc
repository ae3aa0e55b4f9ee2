#include "swarm/routing.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/rng.h"

namespace meadow::swarm {
namespace {

PeerId id(uint8_t n) {
  PeerId out;
  out.bytes.fill(n);
  return out;
}

ServerInfo server(uint8_t n, BlockRange blocks, double tokens_per_s, Duration rtt = 10ms,
                  int64_t free_cache = 1000) {
  ServerInfo out;
  out.peer = {id(n), "h:1"};
  out.lease.blocks = blocks;
  out.lease.n_blocks = 30;
  out.lease.speed.decode = tokens_per_s;
  out.lease.free_cache_tokens = free_cache;
  out.rtt = rtt;
  return out;
}

// The definition: the price of one chain, written a second time.
double price(std::span<const ServerInfo> servers, const Chain& chain,
             const RouteRequest& request = {}) {
  const auto rtt = [](const ServerInfo& s) {
    return s.rtt < Duration{} ? kAssumedRttSeconds : seconds(s.rtt);
  };
  double total = 0;
  const ServerInfo* before = nullptr;
  for (const Hop& hop : chain) {
    const ServerInfo* s = nullptr;
    for (const ServerInfo& candidate : servers)
      if (candidate.peer.id == hop.server.id) s = &candidate;
    double way = rtt(*s);
    if (before != nullptr && request.push) {
      way = std::min(kAssumedRttSeconds, rtt(*before) + rtt(*s));
      for (const Link& link : before->lease.links)
        if (link.peer == s->peer.id) way = static_cast<double>(link.rtt_seconds);
    } else if (before != nullptr) {
      way = rtt(*before) + rtt(*s);
    }
    const Lease& lease = s->lease;
    const double decode = lease.speed.decode > 0 ? lease.speed.decode : kAssumedTokensPerS;
    const double prefill = std::max(lease.speed.prefill, decode);
    const double singles = std::min(lease.sessions, lease.queued_tokens);
    const double queue =
        (singles / decode + (lease.queued_tokens - singles) / prefill) * lease.blocks.size();
    total += way / 2 + kHopSeconds + std::min(queue, kLongestWaitSeconds);
    if (s->left_out) total += hop.blocks.size() * kLastResortSeconds;
    total += hop.blocks.size() * (1 / decode + (request.tokens_per_step - 1) / prefill);
    before = s;
  }
  return total + (before ? rtt(*before) / 2 : 0);
}

// Every chain there is.
void for_each_chain(std::span<const ServerInfo> servers, BlockRange blocks, Chain& chain,
                    const std::function<void(const Chain&)>& visit) {
  if (blocks.empty()) return visit(chain);
  for (const ServerInfo& s : servers)
    for (int32_t end = blocks.first + 1; end <= std::min(blocks.last, s.lease.blocks.last); end++) {
      if (!s.lease.blocks.contains(blocks.first)) continue;
      chain.push_back({s.peer, {blocks.first, end}});
      for_each_chain(servers, {end, blocks.last}, chain, visit);
      chain.pop_back();
    }
}

ServerInfo random_server(uint8_t i, int32_t n, Rng& rng) {
  const int32_t first = static_cast<int32_t>(rng.below(static_cast<uint64_t>(n)));
  const int32_t last =
      first + 1 + static_cast<int32_t>(rng.below(static_cast<uint64_t>(n - first)));
  ServerInfo out = server(i, {first, last}, rng.below(4) == 0 ? 0 : 50 + rng.uniform() * 500,
                          rng.below(4) == 0 ? Duration{-1} : from_seconds(rng.uniform() / 9));
  if (rng.below(2) == 0) out.lease.speed.prefill = 100 + 2000 * rng.uniform();
  if (rng.below(3) == 0) out.lease.sessions = static_cast<uint32_t>(rng.below(4));
  if (rng.below(3) == 0) out.lease.queued_tokens = static_cast<uint32_t>(rng.below(30));
  for (uint8_t to = 0; to < 6; to++)
    if (rng.below(2) == 0)
      out.lease.links.push_back({id(to), static_cast<float>(rng.uniform() / 5)});
  return out;
}

TEST(Routing, EqualsBruteForceOnSmallSwarms) {
  Rng rng(7);
  int found = 0, missing = 0;
  for (int round = 0; round < 1500; round++) {
    const int32_t n = 1 + static_cast<int32_t>(rng.below(5));
    std::vector<ServerInfo> servers;
    const uint64_t count = 1 + rng.below(5);
    for (uint8_t i = 0; i < count; i++) servers.push_back(random_server(i, n, rng));
    if (rng.below(8) == 0) servers[0].left_out = true;
    RouteRequest request{{0, n}};
    request.push = rng.below(4) != 0;
    request.tokens_per_step = rng.below(3) == 0 ? 64 : 1;
    double best = 1e9;
    Chain scratch;
    for_each_chain(servers, {0, n}, scratch, [&](const Chain& c) {
      for (size_t i = 1; i < c.size(); i++)  // no hop from a server to itself
        if (c[i].server == c[i - 1].server) return;
      best = std::min(best, price(servers, c, request));
    });
    const auto route = find_route(servers, request);
    ASSERT_EQ(route.has_value(), best < 1e9);
    if (!route) {
      missing++;
      continue;
    }
    found++;
    ASSERT_NEAR(route->seconds_per_step, best, 1e-9) << round;
    ASSERT_NEAR(price(servers, route->chain, request), best, 1e-9) << round;
    ASSERT_NEAR(chain_seconds(servers, route->chain, request).value(), best, 1e-9);
    int32_t at = 0;  // the chain is whole, in order, and inside the spans
    for (const Hop& hop : route->chain) {
      EXPECT_EQ(hop.blocks.first, at);
      at = hop.blocks.last;
      EXPECT_TRUE(servers[hop.server.id.bytes[0]].lease.blocks.contains(hop.blocks));
    }
    EXPECT_EQ(at, n);
  }
  EXPECT_GT(found, 500);
  EXPECT_GT(missing, 100);
}

// Between neighbours that stand: the ways to and from them count, as they announced them.
TEST(Routing, RepairsLookAtTheNeighbours) {
  std::vector<ServerInfo> servers = {server(1, {0, 4}, 100), server(2, {4, 8}, 100, 10ms),
                                     server(3, {4, 8}, 100, 90ms), server(4, {8, 12}, 100)};
  servers[0].lease.links = {{id(2), 0.2f}, {id(3), 0.01f}};
  servers[2].lease.links = {{id(4), 0.01f}};
  RouteRequest request{{4, 8}};
  EXPECT_EQ(find_route(servers, request)->chain[0].server.id, id(2));  // nearer to the client
  request.previous = id(1);
  request.next = id(4);
  EXPECT_EQ(find_route(servers, request)->chain[0].server.id, id(3));
  EXPECT_NEAR(find_route(servers, request)->seconds_per_step, 0.005 + kHopSeconds + 0.04 + 0.005,
              1e-9);
  request.push = false;  // all ways lead through the client
  EXPECT_EQ(find_route(servers, request)->chain[0].server.id, id(2));
}

TEST(Routing, QueuesCostWhatWaitsInThem) {
  std::vector<ServerInfo> servers = {server(1, {0, 4}, 1000), server(2, {0, 4}, 100)};
  EXPECT_EQ(find_route(servers, {{0, 4}})->chain[0].server.id, id(1));
  servers[0].lease.sessions = 9;
  servers[0].lease.queued_tokens =
      9;  // 9 tokens through 4 blocks: 36 ms, what the other needs more
  EXPECT_EQ(find_route(servers, {{0, 4}})->chain[0].server.id, id(1));
  servers[0].lease.queued_tokens = 10;
  servers[0].lease.sessions = 10;
  EXPECT_EQ(find_route(servers, {{0, 4}})->chain[0].server.id, id(2));
  servers[0].lease.sessions = 1;  // a prompt waits, not ten steps
  servers[0].lease.speed.prefill = 10000;
  EXPECT_EQ(find_route(servers, {{0, 4}})->chain[0].server.id, id(1));
}

TEST(Routing, AFailedServerIsTheLastResort) {
  std::vector<ServerInfo> servers = {server(1, {0, 4}, 900, 1ms), server(2, {0, 4}, 1, 300ms)};
  servers[0].left_out = true;
  EXPECT_EQ(find_route(servers, {{0, 4}})->chain[0].server.id, id(2));
  servers[1].lease.blocks = {0, 3};  // nobody else has block 3: there, and only there
  EXPECT_EQ(describe(find_route(servers, {{0, 4}})->chain), "0:3 via 02020202 => 3:4 via 01010101");
}

TEST(Routing, TheUsersListsCount) {
  const std::vector<ServerInfo> servers = {server(1, {0, 4}, 900), server(2, {0, 4}, 500),
                                           server(3, {0, 4}, 100)};
  RouteRequest request{{0, 4}};
  request.filter = PeerFilter::from({}, {"01010101"}).value();
  EXPECT_EQ(find_route(servers, request)->chain[0].server.id, id(2));
  request.filter = PeerFilter::from({"0303030303"}, {}).value();
  EXPECT_EQ(find_route(servers, request)->chain[0].server.id, id(3));
  request.filter = PeerFilter::from({"04040404"}, {}).value();
  EXPECT_EQ(find_route(servers, request).error().message,
            "blocks 0 to 3 have no server online; 3 not among the allowed servers");
  Rng rng(1);
  EXPECT_FALSE(draw_route(servers, request, Pass::kForward, rng));
}

TEST(Routing, ServersWithoutTheCodecArePassedOver) {
  std::vector<ServerInfo> servers = {server(1, {0, 4}, 900), server(2, {0, 4}, 500)};
  servers[0].lease.codecs = 0b0110;
  servers[1].lease.codecs = 0b1110;
  RouteRequest request{{0, 4}};
  request.codec = Codec::kF16;
  EXPECT_EQ(find_route(servers, request)->chain[0].server.id, id(1));
  request.codec = Codec::kQ8;
  EXPECT_EQ(find_route(servers, request)->chain[0].server.id, id(2));
  servers.pop_back();
  EXPECT_EQ(find_route(servers, request).error().message,
            "blocks 0 to 3 have no server online; 1 without the codec q8");
}

// Big swarms, against the plain method: every border, every pair of states.
TEST(Routing, EqualsAPlainSearchOnLargerSwarms) {
  Rng rng(3);
  for (int round = 0; round < 40; round++) {
    const int32_t n = 8 + static_cast<int32_t>(rng.below(16));
    std::vector<ServerInfo> servers;
    for (uint8_t i = 0; i < 60; i++) {
      servers.push_back(random_server(i, n, rng));
      servers.back().lease.links.clear();
      for (uint8_t to = 0; to < 60; to++)
        if (rng.below(4) == 0)
          servers.back().lease.links.push_back({id(to), static_cast<float>(rng.uniform() / 8)});
    }
    const RouteRequest request{{0, n}};
    const auto half = [](const ServerInfo& s) {
      return (s.rtt < Duration{} ? kAssumedRttSeconds : seconds(s.rtt)) / 2;
    };
    std::vector<std::vector<double>> cost(static_cast<size_t>(n) + 1,
                                          std::vector<double>(servers.size(), 1e18));
    for (int32_t b = 0; b < n; b++)
      for (size_t q = 0; q < servers.size(); q++) {
        if (!servers[q].lease.blocks.contains(b)) continue;
        const Chain one{{servers[q].peer, {b, b + 1}}};
        // what the block costs with and without the hop into it
        const double hop = price(servers, one, request) - 2 * half(servers[q]);
        const double speed = servers[q].lease.speed.decode;
        double best = b == 0 ? half(servers[q]) + hop : 1e18;
        best = std::min(
            best, cost[static_cast<size_t>(b)][q] + 1 / (speed > 0 ? speed : kAssumedTokensPerS));
        for (size_t p = 0; b > 0 && p < servers.size(); p++) {
          if (p == q) continue;
          double way = std::min(kAssumedRttSeconds / 2, half(servers[p]) + half(servers[q]));
          for (const Link& link : servers[p].lease.links)
            if (link.peer == servers[q].peer.id) way = static_cast<double>(link.rtt_seconds) / 2;
          best = std::min(best, cost[static_cast<size_t>(b)][p] + way + hop);
        }
        cost[static_cast<size_t>(b) + 1][q] = best;
      }
    double best = 1e18;
    for (size_t q = 0; q < servers.size(); q++)
      best = std::min(best, cost[static_cast<size_t>(n)][q] + half(servers[q]));
    const auto route = find_route(servers, request);
    ASSERT_EQ(route.has_value(), best < 1e17);
    if (!route) continue;
    ASSERT_NEAR(route->seconds_per_step, best, 1e-9);
  }
}

// Every server is as busy as any other: at every block, load in proportion to throughput.
TEST(Routing, DrawnRoutesSpreadByThroughput) {
  std::vector<ServerInfo> servers = {server(1, {0, 4}, 0), server(2, {0, 4}, 0),
                                     server(3, {0, 2}, 0), server(4, {2, 4}, 0),
                                     server(5, {1, 3}, 0)};
  const std::vector<double> tokens_per_s = {250, 750, 250, 500, 1000};  // of the whole span
  for (size_t i = 0; i < servers.size(); i++)
    servers[i].lease.speed.forward = tokens_per_s[i] * servers[i].lease.blocks.size();
  Rng rng(5);
  std::map<std::pair<int32_t, int>, double> share;  // by block and server
  int64_t hops = 0;
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; i++) {
    const auto route = draw_route(servers, {{0, 4}}, Pass::kForward, rng);
    ASSERT_TRUE(route);
    int32_t at = 0;
    for (const Hop& hop : route->chain) {
      ASSERT_EQ(hop.blocks.first, at);
      for (; at < hop.blocks.last; at++) share[{at, hop.server.id.bytes[0]}] += 1.0 / kDraws;
    }
    ASSERT_EQ(at, 4);
    hops += static_cast<int64_t>(route->chain.size());
  }
  for (int32_t block = 0; block < 4; block++) {
    double sum = 0;
    for (size_t i = 0; i < servers.size(); i++)
      if (servers[i].lease.blocks.contains(block)) sum += tokens_per_s[i];
    for (size_t i = 0; i < servers.size(); i++) {
      const double want = servers[i].lease.blocks.contains(block) ? tokens_per_s[i] / sum : 0;
      EXPECT_NEAR((share[{block, static_cast<int>(i) + 1}]), want, 0.01) << block << " " << i;
    }
  }
  // The least number of changes: what the shares of neighbouring blocks differ by.
  EXPECT_NEAR(static_cast<double>(hops) / kDraws, 1 + 4.0 / 9 + 0.2 + 0.4, 0.02);
  servers[1].left_out = true;
  for (int i = 0; i < 200; i++) {
    const auto route = draw_route(servers, {{0, 4}}, Pass::kForward, rng);
    for (const Hop& hop : route->chain) EXPECT_NE(hop.server.id, id(2));
  }
}

TEST(Routing, PartsOfSpansAreUsed) {
  // fast in the middle of a slow one's span
  const std::vector<ServerInfo> servers = {server(1, {0, 30}, 10), server(2, {10, 20}, 1000)};
  const Chain chain = find_route(servers, {{0, 30}, 0, {}})->chain;
  EXPECT_EQ(describe(chain), "0:10 via 01010101 => 10:20 via 02020202 => 20:30 via 01010101");
  // and a request for a part only
  EXPECT_EQ(describe(find_route(servers, {{12, 15}, 0, {}})->chain), "12:15 via 02020202");
}

TEST(Routing, NearServersWin) {
  const std::vector<ServerInfo> servers = {server(1, {0, 4}, 100, 80ms),
                                           server(2, {0, 4}, 100, 4ms),
                                           server(3, {0, 4}, 100, Duration{-1})};
  const auto route = find_route(servers, {{0, 4}, 0, {}});
  EXPECT_EQ(route->chain, (Chain{{servers[1].peer, {0, 4}}}));
  EXPECT_NEAR(route->seconds_per_step, 0.004 + kHopSeconds + 0.04, 1e-12);
}

TEST(Routing, TiesGoToFewerHopsThenToTheLowerId) {
  std::vector<ServerInfo> servers = {server(9, {0, 4}, 100), server(3, {0, 4}, 100),
                                     server(5, {0, 4}, 100)};
  EXPECT_EQ(find_route(servers, {{0, 4}, 0, {}})->chain[0].server.id, id(3));
  std::swap(servers[0], servers[1]);
  EXPECT_EQ(find_route(servers, {{0, 4}, 0, {}})->chain[0].server.id, id(3));
}

TEST(Routing, AvoidedAndFullServersArePassedOver) {
  const std::vector<ServerInfo> servers = {server(1, {0, 4}, 900, 1ms), server(2, {0, 4}, 100),
                                           server(3, {0, 4}, 500, 1ms, 99)};
  EXPECT_EQ(find_route(servers, {{0, 4}, 100, {}})->chain[0].server.id, id(1));
  EXPECT_EQ(find_route(servers, {{0, 4}, 100, {id(1)}})->chain[0].server.id, id(2));
  EXPECT_EQ(find_route(servers, {{0, 4}, 99, {id(1)}})->chain[0].server.id, id(3));
  const auto none = find_route(servers, {{0, 4}, 100, {id(1), id(2)}});
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_EQ(none.error().message,
            "blocks 0 to 3 have no server online; 1 without cache for 100 tokens; 2 left out after "
            "a failure");
}

TEST(Routing, FullIsNotAbsent) {
  const std::vector<ServerInfo> servers = {server(1, {0, 4}, 100, 1ms, 50), server(2, {4, 6}, 100)};
  const auto full = find_route(servers, {{0, 6}, 100, {}});
  EXPECT_EQ(full.error().code, Code::kResourceExhausted);
  EXPECT_NE(full.error().message.find("blocks 0 to 3 are held, but without room for 100 tokens"),
            std::string::npos)
      << full.error().message;
  EXPECT_EQ(find_route(servers, {{0, 8}, 100, {}}).error().code, Code::kUnavailable);
}

TEST(Routing, MissingBlocksAreNamed) {
  const std::vector<ServerInfo> servers = {server(1, {0, 3}, 1), server(2, {4, 10}, 1),
                                           server(3, {15, 20}, 1)};
  EXPECT_EQ(find_route(servers, {{0, 20}, 0, {}}).error().message,
            "blocks 3, 10 to 14 have no server online");
  EXPECT_EQ(find_route(servers, {{0, 4}, 0, {}}).error().message, "block 3 has no server online");
  EXPECT_EQ(find_route({}, {{0, 30}, 0, {}}).error().message,
            "blocks 0 to 29 have no server online");
}

TEST(Routing, BadRangesAreRefused) {
  for (const BlockRange blocks :
       {BlockRange{0, 0}, BlockRange{3, 2}, BlockRange{-1, 2}, BlockRange{0, kMaxBlocks + 1}})
    EXPECT_EQ(find_route({}, {blocks, 0, {}}).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace meadow::swarm
