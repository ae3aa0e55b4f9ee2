// How near placement comes to the best there is: small swarms whose optimum is found by trying
// everything that could be better.
// Thread rule: pure functions.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/rng.h"

namespace meadow::simulate {

struct Candidate {
  int32_t length = 0;       // blocks that it holds
  double tokens_per_s = 0;  // through all of them
};

// The greatest throughput (sum at the weakest block) over all placements of these servers, 0 if
// they cannot cover the model. Exhaustive: the leftmost block that still lacks something must be
// covered by one of the servers left, which then may as well begin there, since everything further
// left has what it needs; so the orders of servers are all there is to try, less those that cannot
// beat the best. For some ten servers.
double best_throughput(int32_t n_blocks, std::span<const Candidate> servers);

struct OptimumOptions {
  int cases = 1000;
  uint64_t seed = 1;
  int least_servers = 4, most_servers = 8;
  int32_t longest_span = 4;  // 1 to this
  int32_t least_blocks = 8, most_blocks = 12;
  double slowest = 1, fastest = 20;  // tokens/s, log-uniform
  double min_gain = 0.1;
};

struct OptimumCase {
  int32_t n_blocks = 0;
  int servers = 0;
  double optimum = 0;
  double joined = 0;    // each takes the blocks served worst, none moves later
  double balanced = 0;  // and they rebalance while and after each newcomer loads
  int plans = 0, moves = 0;
  // Right after every rebalance among servers that are all online: throughput over the optimum of
  // those who are there.
  std::vector<double> after_plan;
};

struct OptimumReport {
  std::vector<OptimumCase> cases;
  int uncoverable = 0;       // drawn, but no placement covers the model: not counted
  int plans_uncovering = 0;  // that took the last holder from a block; must be 0
  int plans_below = 0;       // that gained less than the threshold; must be 0
  struct Share {
    double mean = 0, least = 0;
  };
  Share joined, balanced, after_plan;
};

// `progress` is called after every case (may be empty).
OptimumReport compare_with_optimum(const OptimumOptions& options,
                                   const std::function<void(int)>& progress);

}  // namespace meadow::simulate
