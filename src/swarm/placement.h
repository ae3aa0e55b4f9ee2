// Which blocks a joining server takes: those served worst.
// Thread rule: pure functions.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace meadow::swarm {

struct Throughput {
  BlockRange blocks;
  double tokens_per_s = 0;
};

// Sum of the throughputs of the servers that cover each block, added in the order given (so that
// equal inputs give equal bits). f64 [n_blocks]. Ranges are clipped to the model.
std::vector<double> block_throughputs(int32_t n_blocks, std::span<const Throughput> servers);

// Of all windows of `count` blocks the one whose throughputs, sorted ascending, are
// lexicographically smallest; ties go to the lowest start (the rule of PETALS: worst block first,
// then second worst, …). `count` is clipped to [1, n_blocks].
BlockRange choose_blocks(std::span<const double> throughputs, int32_t count);

}  // namespace meadow::swarm
