#include "simulate/churn.h"

#include <gtest/gtest.h>

namespace meadow::simulate {
namespace {

ChurnReport run(Rule rule, uint64_t seed = 1) {
  ChurnOptions options;
  options.rule = rule;
  options.hours = 300;
  options.seed = seed;
  return run_churn(options, {});
}

TEST(Churn, ASeedDecidesEverything) {
  const ChurnReport a = run(Rule::kPlanned), b = run(Rule::kPlanned), c = run(Rule::kPlanned, 2);
  EXPECT_EQ(a.throughput.y, b.throughput.y);
  EXPECT_EQ(a.moves, b.moves);
  EXPECT_EQ(a.looks, b.looks);
  EXPECT_NE(a.throughput.y, c.throughput.y);
}

// The paper's order: rebalancing, then balancing at joins only, then nothing; random placement has
// a hole most of the time.
TEST(Churn, RebalancingBeatsTheRest) {
  const ChurnReport planned = run(Rule::kPlanned), joins = run(Rule::kJoinsOnly),
                    none = run(Rule::kNone), random = run(Rule::kRandom);
  EXPECT_GT(planned.of_capacity, 1.2 * joins.of_capacity);
  EXPECT_GT(joins.of_capacity, none.of_capacity);
  EXPECT_LT(planned.down_share, joins.down_share);
  EXPECT_GT(random.down_share, 0.5);
}

// Moves back are rare: two changes within a minute can leave servers with different plans for a
// while.
TEST(Churn, NoMoveBelowTheThresholdAndHardlyOneBack) {
  for (uint64_t seed = 1; seed <= 3; seed++) {
    const ChurnReport report = run(Rule::kPlanned, seed);
    EXPECT_GT(report.moves, 20u);
    EXPECT_EQ(report.moves_below, 0u);
    EXPECT_LE(report.moves_back * 200, report.moves);
  }
}

// Once nobody comes or goes any more, nobody moves any more.
TEST(Churn, ACalmSwarmComesToRest) {
  ChurnOptions options;
  options.life_hours = 1e9;
  options.hours = 100;
  const ChurnReport report = run_churn(options, {});
  EXPECT_LT(report.last_move_hours, 2);
  EXPECT_GT(report.of_capacity, 0.85);
  EXPECT_EQ(report.down_share, 0);
}

}  // namespace
}  // namespace meadow::simulate
