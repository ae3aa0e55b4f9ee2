// Which servers should move where, so that the swarm passes more: the same plan for everybody who
// has the same view, so that a server can read its own part from it and nobody else takes that
// part. Thread rule: pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"

namespace meadow::swarm {

// A server as placement sees it.
struct Placed {
  PeerId id;
  BlockRange blocks;
  double tokens_per_s = 0;  // through the whole span
  bool online = true;       // answers; else it is loading: counted, not relied upon, not moved
  bool movable = true;      // not pinned
  BlockRange kept;          // while loading: what it answers for all the same
};

struct Move {
  PeerId server;
  BlockRange from, to;
  bool operator==(const Move&) const = default;
};

struct PlanOptions {
  // A plan must raise the swarm's throughput as it now is by this share (0.2: one fifth).
  double min_gain = 0.1;
};

struct Plan {
  double now = 0;    // tokens/s through the swarm's weakest block
  double after = 0;  // once all moves are made; `now` if there are none
  // One stage after another; the moves of a stage at once, by id. If every block is answered for
  // now, every block is while they are made: by somebody who stays, or who keeps it while moving.
  // The next stage begins when those of the last one are online. A server may move in two stages.
  std::vector<std::vector<Move>> stages;

  bool empty() const { return stages.empty(); }
  bool operator==(const Plan&) const = default;
};

// The plan for these servers. Without moves if none gains enough. `servers` in any order; spans are
// clipped to the model, empty ones are left out.
// The throughput of a swarm is that of its weakest block (PETALS, section 3.2). Where PETALS moves
// one server to the place that is best for it, the search here (iterated local search over the
// missing throughput) looks for the best that all could reach together. Its effort is bounded: some
// milliseconds for ten thousand servers and two hundred blocks.
Plan plan_moves(int32_t n_blocks, std::span<const Placed> servers, const PlanOptions& options);

}  // namespace meadow::swarm
