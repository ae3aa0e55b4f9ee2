// Placement and routing against what Petals itself answered on seeded random swarms
// (data/petals/; its code run unmodified).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "swarm/placement.h"
#include "swarm/routing.h"

namespace meadow::swarm {
namespace {

nlohmann::json load(const std::string& name) {
  std::ifstream in(std::string(MEADOW_SOURCE_DIR) + "/tests/golden/data/petals/" + name);
  EXPECT_TRUE(in) << name;
  return nlohmann::json::parse(in).at("cases");
}

// Servers lie in the file in the order in which Petals adds them: by peer id as base58 text.
TEST(PetalsGolden, ThroughputsAndChoiceOfBlocksAreEqual) {
  int cases = 0;
  for (const auto& c : load("choose_best_blocks.json")) {
    std::vector<Throughput> servers;
    for (const auto& s : c.at("servers")) servers.push_back({{s[0], s[1]}, s[2]});
    const auto sums = block_throughputs(c.at("total_blocks"), servers);
    EXPECT_EQ(sums, c.at("block_throughputs").get<std::vector<double>>()) << cases;
    const BlockRange expected{c.at("start"), c.at("end")};
    EXPECT_EQ(choose_blocks(sums, c.at("num_blocks")), expected) << cases;
    cases++;
  }
  EXPECT_EQ(cases, 80);
}

// Petals follows a server once entered to its span's end and prices hops differently, so its routes
// are comparable only where there is nothing to choose: every block has at most one server online.
// Those cases of its 60 are here: equal chains, or equal missing blocks.
TEST(PetalsGolden, ForcedRoutesAndMissingBlocksAreEqual) {
  int routes = 0, gaps = 0;
  for (const auto& c : load("routing_forced.json")) {
    std::vector<ServerInfo> online;
    std::map<std::string, PeerId> ids;
    for (const auto& s : c.at("servers")) {
      ServerInfo info;
      info.peer.id.bytes = sha256(s[0].get<std::string>()).bytes;
      info.lease.blocks = {s[1], s[2]};
      ids[s[0]] = info.peer.id;
      if (s[3] == 2) online.push_back(info);
    }
    const BlockRange blocks{c.at("start"), c.at("end")};
    const auto route = find_route(online, {blocks, 0, {}});
    if (const auto& missing = c.at("missing"); !missing.empty()) {
      ASSERT_FALSE(route);
      for (int32_t b = blocks.first; b < blocks.last; b++) {
        const bool listed = std::find(missing.begin(), missing.end(), b) != missing.end();
        EXPECT_EQ(!find_route(online, {{b, b + 1}, 0, {}}), listed) << b;
      }
      gaps++;
      continue;
    }
    Chain expected;
    for (const auto& hop : c.at("route"))
      expected.push_back({{ids.at(hop[0]), ""}, {hop[1], hop[2]}});
    ASSERT_TRUE(route);
    EXPECT_EQ(route->chain, expected);
    routes++;
  }
  EXPECT_GT(routes, 5);
  EXPECT_EQ(gaps, 6);
}

}  // namespace
}  // namespace meadow::swarm
