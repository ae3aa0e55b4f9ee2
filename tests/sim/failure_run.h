// The paper's failure experiment (arXiv 2312.08361, table 1) in virtual time: four stages of 8, 7,
// 8 and 7 blocks, every block on two servers; each sending of activations fails with probability p:
// it resets the receiver's stream and drops its cache. The same costs for all algorithms. Thread
// rule: one thread; deterministic by seed.
#pragma once
#include <array>
#include <cstdint>

#include "base/clock.h"
#include "base/rng.h"
#include "sim/session_world.h"

namespace meadow::sim {

struct FailureCosts {
  double decode_tokens_per_s = 8700;    // through one block
  double prefill_tokens_per_s = 84000;  // through one block, tokens behind the first of a step
  Duration one_way = 250us;             // between any two machines

  Duration step(int32_t blocks, int64_t tokens) const {
    return from_seconds(blocks * (1 / decode_tokens_per_s +
                                  static_cast<double>(tokens - 1) / prefill_tokens_per_s));
  }
};

struct FailureResult {
  double steps_per_s = 0;  // 0: not done within the limit
  int64_t failures = 0;
  bool equal = true;  // what came out is what one machine gives (where it was computed)
};

constexpr std::array<int32_t, 4> kStageBlocks = {8, 7, 8, 7};
constexpr Duration kFailureLimit = 3600s;  // of virtual time, as the paper waited

// Meadow: caches at the servers, the client's journal, replay of the span that failed.
inline FailureResult run_meadow(int64_t tokens, double p, uint64_t seed,
                                const FailureCosts& costs) {
  World world(30, 4, seed);
  world.client_latency = world.server_latency = costs.one_way;
  for (int copy = 0; copy < 2; copy++) {
    int32_t first = 0;
    for (const int32_t blocks : kStageBlocks) {
      Server& server = world.add_server({first, first + blocks});
      server.task_time = costs.step(blocks, 1);
      server.token_time = costs.step(blocks, 2) - costs.step(blocks, 1);
      first += blocks;
    }
  }
  InferenceSession session(world.session_options(tokens), world, world.directory, world,
                           world.loop.clock(), world.rng);
  MEADOW_CHECK(session.open(nullptr).has_value());
  world.send_failures = p;
  world.failure_dice = Rng(seed);
  const TimePoint began = world.loop.now();
  FailureResult result;
  std::vector<float> out;
  for (int64_t at = 0; at < tokens; at++) {
    const auto next = session.step(at, world.inputs(at, 1), at, nullptr);
    if (!next) return result;
    out.insert(out.end(), next->begin(), next->end());
  }
  const Duration took = world.loop.now() - began;
  result.failures = world.sends_failed;
  result.equal = out == world.reference(tokens, 0);
  if (took <= kFailureLimit) result.steps_per_s = static_cast<double>(tokens) / seconds(took);
  return result;
}

// Caches without a journal: any failure begins the whole generation anew.
inline FailureResult run_restarts(int64_t tokens, double p, uint64_t seed,
                                  const FailureCosts& costs) {
  Rng dice(seed);
  FailureResult result;
  Duration took{};
  for (int64_t at = 0; at < tokens && took <= kFailureLimit;) {
    bool failed = false;
    for (const int32_t blocks : kStageBlocks) {
      took += costs.one_way;
      if (dice.uniform() < p) {
        failed = true;
        break;
      }
      took += costs.step(blocks, 1);
    }
    took += costs.one_way;  // the answer, or the news of the reset
    result.failures += failed;
    at = failed ? 0 : at + 1;
  }
  if (took <= kFailureLimit) result.steps_per_s = static_cast<double>(tokens) / seconds(took);
  return result;
}

// No caches: the whole sequence goes through all stages for every token; a failed sending is
// repeated.
inline FailureResult run_cacheless(int64_t tokens, double p, uint64_t seed,
                                   const FailureCosts& costs) {
  Rng dice(seed);
  FailureResult result;
  Duration took{};
  for (int64_t at = 0; at < tokens && took <= kFailureLimit; at++) {
    for (const int32_t blocks : kStageBlocks) {
      while (dice.uniform() < p) {
        result.failures++;
        took += 2 * costs.one_way;  // there, and the news of the reset
      }
      took += costs.one_way + costs.step(blocks, at + 1);
    }
    took += costs.one_way;
  }
  if (took <= kFailureLimit) result.steps_per_s = static_cast<double>(tokens) / seconds(took);
  return result;
}

}  // namespace meadow::sim
