#include "swarm/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace meadow::swarm {
namespace {

TEST(Placement, KnownChoices) {  // from Petals: reference values of its rule
  const auto first = [](std::vector<double> t, int32_t n) { return choose_blocks(t, n).first; };
  EXPECT_EQ(first({1, 1, 0, 0, 1}, 2), 2);
  EXPECT_EQ(first({0, 0, 0, 0, 0}, 3), 0);
  EXPECT_EQ(first({3, 1, 1, 2, 1, 1, 3}, 2), 1);
  EXPECT_EQ(first({5, 5, 1, 9, 1, 5}, 3), 2);
  EXPECT_EQ(first({2, 2, 2, 1, 2, 2}, 1), 3);
}

TEST(Placement, CountIsClipped) {
  const std::vector<double> t = {1, 0, 2};
  EXPECT_EQ(choose_blocks(t, 99), (BlockRange{0, 3}));
  EXPECT_EQ(choose_blocks(t, 0), (BlockRange{1, 2}));
  EXPECT_TRUE(choose_blocks({}, 4).empty());
}

TEST(Placement, SpansOutsideTheModelAreClipped) {
  const std::vector<Throughput> servers = {{{-5, 2}, 1}, {{1, 99}, 2}, {{3, 3}, 7}, {{9, 4}, 7}};
  EXPECT_EQ(block_throughputs(4, servers), (std::vector<double>{1, 3, 2, 2}));
  EXPECT_TRUE(block_throughputs(0, servers).empty());
}

// Servers that join one after another leave no block uncovered as long as their blocks suffice.
TEST(Placement, JoiningServersCoverTheModel) {
  Rng rng(11);
  for (int round = 0; round < 200; round++) {
    const int32_t n = 1 + static_cast<int32_t>(rng.below(40));
    std::vector<Throughput> servers;
    int32_t held = 0;
    // a window may overlap a covered block at an edge, so twice the blocks are offered
    while (held < 2 * n) {
      const auto sums = block_throughputs(n, servers);
      const int32_t count = 1 + static_cast<int32_t>(rng.below(static_cast<uint64_t>(n)));
      const BlockRange chosen = choose_blocks(sums, count);
      const double worst = *std::min_element(sums.begin(), sums.end());
      // the worst served block is always inside the chosen window
      EXPECT_TRUE(std::any_of(sums.begin() + chosen.first, sums.begin() + chosen.last,
                              [&](double t) { return t == worst; }));
      servers.push_back({chosen, 1 + rng.uniform()});
      held += chosen.size();
    }
  }
}

}  // namespace
}  // namespace meadow::swarm
