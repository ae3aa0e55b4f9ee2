#include "swarm/placement_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/identity.h"
#include "base/rng.h"
#include "swarm/placement.h"

namespace meadow::swarm {
namespace {

PeerId id_of(int number) {
  PeerId id;
  id.bytes = sha256(std::to_string(number)).bytes;
  return id;
}

double throughput(int32_t n_blocks, const std::vector<Placed>& servers, bool online_only = false) {
  std::vector<Throughput> spans;
  for (const Placed& s : servers)
    if (s.online || !online_only) spans.push_back({s.blocks, s.tokens_per_s});
  const auto sums = block_throughputs(n_blocks, spans);
  return *std::min_element(sums.begin(), sums.end());
}

void apply(std::vector<Placed>& servers, const std::vector<Move>& stage) {
  for (const Move& move : stage)
    for (Placed& s : servers)
      if (s.id == move.server) {
        EXPECT_EQ(s.blocks, move.from);
        EXPECT_EQ(move.from.size(), move.to.size());
        EXPECT_NE(move.from, move.to);
        s.blocks = move.to;
      }
}

// Somebody online stays at, or keeps, every block while the stage is made.
bool keeps_all(int32_t n_blocks, std::vector<Placed> servers, const std::vector<Move>& stage) {
  std::vector<int> holders(static_cast<size_t>(n_blocks));
  for (const Placed& s : servers) {
    BlockRange kept = s.blocks;
    for (const Move& move : stage)
      if (move.server == s.id)
        kept = {std::max(move.from.first, move.to.first), std::min(move.from.last, move.to.last)};
    for (int32_t b = kept.first; s.online && b < kept.last; b++) holders[static_cast<size_t>(b)]++;
  }
  return std::ranges::all_of(holders, [](int n) { return n > 0; });
}

std::vector<Placed> random_swarm(Rng& rng, int32_t n_blocks, int n_servers, int32_t longest) {
  std::vector<Placed> out;
  for (int i = 0; i < n_servers; i++) {
    const auto length =
        static_cast<int32_t>(1 + rng.below(static_cast<uint64_t>(std::min(longest, n_blocks))));
    const auto first =
        static_cast<int32_t>(rng.below(static_cast<uint64_t>(n_blocks - length + 1)));
    out.push_back({id_of(i),
                   {first, first + length},
                   std::exp(3 * rng.uniform()),
                   rng.below(8) != 0,
                   rng.below(8) != 0});
  }
  return out;
}

TEST(Plan, AnUncoveredBlockIsCovered) {
  const std::vector<Placed> servers = {
      {id_of(1), {0, 2}, 5}, {id_of(2), {0, 2}, 4}, {id_of(3), {2, 3}, 5}};
  const Plan plan = plan_moves(4, servers, {});
  EXPECT_EQ(plan.now, 0);
  EXPECT_EQ(plan.after, 4);
  ASSERT_EQ(plan.stages.size(), 1u);
  ASSERT_EQ(plan.stages[0].size(), 1u);
  EXPECT_EQ(plan.stages[0][0].to, (BlockRange{2, 4}));
}

TEST(Plan, NoGainNoMove) {
  EXPECT_TRUE(plan_moves(4, {}, {}).empty());
  EXPECT_TRUE(plan_moves(0, {}, {}).empty());
  // balanced already
  const std::vector<Placed> servers = {{id_of(1), {0, 2}, 5}, {id_of(2), {2, 4}, 5}};
  EXPECT_TRUE(plan_moves(4, servers, {}).empty());
  // nobody could ever cover the fifth block
  EXPECT_TRUE(plan_moves(5, servers, {}).empty());
}

TEST(Plan, TheGainIsOverTheThroughputAsItIs) {
  // 10 now; the last server's move to [0, 2) makes it 11.9
  const std::vector<Placed> servers = {
      {id_of(1), {0, 2}, 10}, {id_of(2), {2, 4}, 12}, {id_of(3), {2, 4}, 1.9}};
  EXPECT_TRUE(plan_moves(4, servers, {.min_gain = 0.2}).empty());
  const Plan plan = plan_moves(4, servers, {.min_gain = 0.19});
  ASSERT_FALSE(plan.empty());
  EXPECT_NEAR(plan.after, 11.9, 1e-9);
}

TEST(Plan, PinnedAndLoadingServersStay) {
  std::vector<Placed> servers = {
      {id_of(1), {0, 2}, 5}, {id_of(2), {0, 2}, 4}, {id_of(3), {0, 2}, 3}};
  servers[2].movable = false;  // pinned
  servers[1].online = false;   // loading
  Plan plan = plan_moves(4, servers, {});
  ASSERT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(plan.stages[0], (std::vector<Move>{{id_of(1), {0, 2}, {2, 4}}}));
  servers[0].movable = false;
  EXPECT_TRUE(plan_moves(4, servers, {}).empty());
}

TEST(Plan, AServerThatIsLoadingIsCountedButNotReliedUpon) {
  // [2, 4) is about to be held twice: nobody has to go there
  std::vector<Placed> servers = {
      {id_of(1), {0, 2}, 5}, {id_of(2), {0, 2}, 5}, {id_of(3), {2, 4}, 5}};
  servers[2].online = false;
  EXPECT_TRUE(plan_moves(4, servers, {}).empty());
  // [0, 1) is held by one who answers and one who loads: the one who answers may not leave
  servers = {{id_of(1), {0, 1}, 9}, {id_of(2), {0, 1}, 9}, {id_of(3), {1, 2}, 1}};
  servers[1].online = false;
  EXPECT_TRUE(plan_moves(2, servers, {}).empty());
  servers[1].online = true;
  EXPECT_FALSE(plan_moves(2, servers, {}).empty());
}

// Whatever the order in which a view lists the servers, and however often: so two servers never
// take the same part.
TEST(Plan, EqualViewsGiveEqualPlans) {
  Rng rng(5);
  for (int round = 0; round < 30; round++) {
    std::vector<Placed> servers = random_swarm(rng, 24, 12, 8);
    const Plan plan = plan_moves(24, servers, {});
    std::shuffle(servers.begin(), servers.end(), rng);
    EXPECT_EQ(plan_moves(24, servers, {}), plan);
    for (const auto& stage : plan.stages)
      for (size_t i = 1; i < stage.size(); i++) EXPECT_LT(stage[i - 1].server, stage[i].server);
  }
}

// A plan gains what it says and at least the threshold, takes the last holder from no block, and
// moves nobody who may not be moved.
TEST(Plan, HoldsItsPromisesInRandomSwarms) {
  Rng rng(6);
  int plans = 0, staged = 0;
  for (int round = 0; round < 400; round++) {
    const auto n_blocks = static_cast<int32_t>(4 + rng.below(28));
    const int n_servers = static_cast<int>(3 + rng.below(30));
    std::vector<Placed> servers = random_swarm(rng, n_blocks, n_servers, 8);
    const PlanOptions options{.min_gain = 0.05 + 0.3 * rng.uniform()};
    const Plan plan = plan_moves(n_blocks, servers, options);
    if (plan.empty()) continue;
    plans++;
    staged += plan.stages.size() > 1;
    EXPECT_NEAR(plan.now, throughput(n_blocks, servers), 0.01);
    EXPECT_GE(plan.after, plan.now * (1 + options.min_gain));
    const bool whole = throughput(n_blocks, servers, true) > 0;
    for (const auto& stage : plan.stages) {
      EXPECT_FALSE(stage.empty());
      EXPECT_TRUE(!whole || keeps_all(n_blocks, servers, stage)) << round;
      for (const Move& move : stage)
        for (const Placed& s : servers) EXPECT_TRUE(s.id != move.server || (s.movable && s.online));
      apply(servers, stage);
    }
    EXPECT_NEAR(throughput(n_blocks, servers), plan.after, 0.01 + 0.001 * n_servers);
  }
  EXPECT_GT(plans, 100);
  EXPECT_GT(staged, 3);
}

// Without changes in between, plans come to an end: each gains at least the threshold.
TEST(Plan, NoOscillation) {
  Rng rng(7);
  for (int round = 0; round < 60; round++) {
    std::vector<Placed> servers = random_swarm(rng, 20, 14, 6);
    for (Placed& s : servers) s.online = s.movable = true;
    double last = throughput(20, servers);
    for (int plans = 0;; plans++) {
      ASSERT_LT(plans, 20);
      const Plan plan = plan_moves(20, servers, {.min_gain = 0.1});
      if (plan.empty()) break;
      for (const auto& stage : plan.stages) apply(servers, stage);
      const double now = throughput(20, servers);
      ASSERT_GE(now, last * 1.099);
      last = now;
    }
  }
}

TEST(Plan, WhoLiesAboutItsSpeedIsBelievedWithinBounds) {
  // the liar at [0, 2) would draw both honest ones away from there
  std::vector<Placed> servers;
  for (int i = 0; i < 40; i++) servers.push_back({id_of(i), {i % 2 * 2, i % 2 * 2 + 2}, 2});
  servers.push_back({id_of(99), {0, 2}, 1e300});
  const Plan plan = plan_moves(4, servers, {});
  for (const auto& stage : plan.stages) apply(servers, stage);
  servers.pop_back();
  EXPECT_GE(throughput(4, servers), 2);  // the swarm stays whole without the liar, too
  EXPECT_LE(plan.after, 16 * 2 + 41 * 2);
}

TEST(Plan, SpansOutsideTheModelAreClipped) {
  const std::vector<Placed> servers = {{id_of(1), {-3, 2}, 5},
                                       {id_of(2), {1, 99}, 4},
                                       {id_of(3), {7, 3}, 5},
                                       {id_of(4), {50, 60}, 5},
                                       {id_of(5), {0, 1}, std::nan("")}};
  EXPECT_EQ(plan_moves(3, servers, {}).now, 4);
}

TEST(Plan, TenThousandServersAreRepaired) {
  Rng rng(8);
  constexpr int32_t kBlocks = 200;
  std::vector<Placed> servers;
  std::vector<double> sums(kBlocks);
  for (int i = 0; i < 10'000; i++) {
    const double speed = std::exp(3 * rng.uniform());
    const BlockRange blocks = choose_blocks(sums, static_cast<int32_t>(2 + rng.below(19)));
    for (int32_t b = blocks.first; b < blocks.last; b++) sums[static_cast<size_t>(b)] += speed;
    servers.push_back({id_of(i), blocks, speed});
  }
  EXPECT_TRUE(plan_moves(kBlocks, servers, {}).empty());
  std::erase_if(servers, [](const Placed& s) { return s.blocks.contains(77); });
  const Plan plan = plan_moves(kBlocks, servers, {});
  EXPECT_EQ(plan.now, 0);
  double capacity = 0;
  for (const Placed& s : servers) capacity += s.tokens_per_s * s.blocks.size();
  EXPECT_GT(plan.after, 0.92 * capacity / kBlocks);
}

}  // namespace
}  // namespace meadow::swarm
