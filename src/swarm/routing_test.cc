#include "swarm/routing.h"

#include <gtest/gtest.h>

#include <functional>

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

// The definition: the price of one chain.
double price(std::span<const ServerInfo> servers, const Chain& chain) {
  double total = 0, last_half = 0;
  for (const Hop& hop : chain)
    for (const ServerInfo& s : servers)
      if (s.peer.id == hop.server.id) {
        last_half = (s.rtt < Duration{} ? kAssumedRttSeconds : seconds(s.rtt)) / 2;
        const double speed = s.lease.speed.decode > 0 ? s.lease.speed.decode : kAssumedTokensPerS;
        total += last_half + kHopSeconds + hop.blocks.size() / speed;
      }
  return total + last_half;
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

TEST(Routing, EqualsBruteForceOnSmallSwarms) {
  Rng rng(7);
  int found = 0, missing = 0;
  for (int round = 0; round < 600; round++) {
    const int32_t n = 1 + static_cast<int32_t>(rng.below(5));
    std::vector<ServerInfo> servers;
    for (uint8_t i = 0; i < 1 + rng.below(5); i++) {
      const int32_t first = static_cast<int32_t>(rng.below(static_cast<uint64_t>(n)));
      const int32_t last =
          first + 1 + static_cast<int32_t>(rng.below(static_cast<uint64_t>(n - first)));
      servers.push_back(server(i, {first, last}, rng.below(4) == 0 ? 0 : 50 + rng.uniform() * 500,
                               rng.below(4) == 0 ? Duration{-1} : from_seconds(rng.uniform() / 9)));
    }
    double best = 1e9;
    Chain scratch;
    for_each_chain(servers, {0, n}, scratch,
                   [&](const Chain& c) { best = std::min(best, price(servers, c)); });
    const auto route = find_route(servers, {{0, n}, 0, {}});
    ASSERT_EQ(route.has_value(), best < 1e9);
    if (!route) {
      missing++;
      continue;
    }
    found++;
    EXPECT_NEAR(route->seconds_per_token, best, 1e-12);
    EXPECT_NEAR(price(servers, route->chain), best, 1e-12);
    int32_t at = 0;  // the chain is whole, in order, and inside the spans
    for (const Hop& hop : route->chain) {
      EXPECT_EQ(hop.blocks.first, at);
      at = hop.blocks.last;
      EXPECT_TRUE(servers[hop.server.id.bytes[0]].lease.blocks.contains(hop.blocks));
    }
    EXPECT_EQ(at, n);
  }
  EXPECT_GT(found, 200);
  EXPECT_GT(missing, 50);
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
  EXPECT_NEAR(route->seconds_per_token, 0.004 + kHopSeconds + 0.04, 1e-12);
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
