// The paper's failure table, three algorithms, in virtual time over measured speeds:
//   bench_failures [DECODE PREFILL [ONE_WAY_MS [SEEDS]]]
// DECODE and PREFILL: tokens/s through one block, as `meadow serve --json` measures them.
#include <cstdlib>

#include "sim/failure_run.h"

namespace meadow::sim {
namespace {

using Run = FailureResult (*)(int64_t, double, uint64_t, const FailureCosts&);

// Mean over seeds of the time, told as steps/s; 0 if one of them was not done within the limit.
void row(const char* name, Run run, const FailureCosts& costs, uint64_t seeds) {
  fmt::print("| {} |", name);
  for (const int64_t tokens : {128, 1024}) {
    double without = 0;
    for (const double p : {0.0, 1e-4, 1e-3, 1e-2}) {
      double time = 0;
      bool done = true, equal = true;
      for (uint64_t seed = 1; seed <= (p > 0 ? seeds : 1); seed++) {
        const FailureResult r = run(tokens, p, seed, costs);
        done &= r.steps_per_s > 0;
        equal &= r.equal;
        if (r.steps_per_s > 0) time += 1 / r.steps_per_s;
      }
      const double speed = static_cast<double>(p > 0 ? seeds : 1) / time;
      if (p == 0) without = speed;
      if (!done)
        fmt::print(" not in 1 h |");
      else if (p == 0)
        fmt::print(" {:.1f}{} |", speed, equal ? "" : " WRONG");
      else
        fmt::print(" {:.1f} ({:.0f} %){} |", speed, 100 * speed / without, equal ? "" : " WRONG");
    }
  }
  fmt::print("\n");
}

}  // namespace
}  // namespace meadow::sim

int main(int argc, char** argv) {
  using namespace meadow;
  using namespace meadow::sim;
  FailureCosts costs;
  if (argc > 2) {
    costs.decode_tokens_per_s = std::atof(argv[1]);
    costs.prefill_tokens_per_s = std::atof(argv[2]);
  }
  if (argc > 3) costs.one_way = from_seconds(std::atof(argv[3]) / 1e3);
  const int seeds = argc > 4 ? std::atoi(argv[4]) : 20;
  if (!(costs.decode_tokens_per_s > 0) || !(costs.prefill_tokens_per_s > 0) ||
      costs.one_way < Duration{} || seeds < 1) {
    fmt::print(stderr, "usage: bench_failures [DECODE PREFILL [ONE_WAY_MS [SEEDS]]]\n");
    return 2;
  }
  fmt::print(
      "decode {:.0f}, prefill {:.0f} tokens/s through one block, one way {:.2f} ms, mean of "
      "{} seeds; steps/s (share of p = 0)\n"
      "| algorithm | 128 tokens: p = 0 | 1e-4 | 1e-3 | 1e-2 | 1024 tokens: p = 0 | 1e-4 | "
      "1e-3 | 1e-2 |\n|---|---|---|---|---|---|---|---|---|\n",
      costs.decode_tokens_per_s, costs.prefill_tokens_per_s, milliseconds(costs.one_way), seeds);
  row("caches, restart after a failure", run_restarts, costs, static_cast<uint64_t>(seeds));
  row("no caches", run_cacheless, costs, static_cast<uint64_t>(seeds));
  row("Meadow", run_meadow, costs, static_cast<uint64_t>(seeds));
  return 0;
}
