#include "swarm/placement.h"

#include <algorithm>

namespace meadow::swarm {

std::vector<double> block_throughputs(int32_t n_blocks, std::span<const Throughput> servers) {
  std::vector<double> sums(static_cast<size_t>(std::max(n_blocks, 0)), 0.0);
  for (const Throughput& server : servers) {
    const int32_t last = std::min(server.blocks.last, n_blocks);
    for (int32_t b = std::max(server.blocks.first, 0); b < last; b++)
      sums[static_cast<size_t>(b)] += server.tokens_per_s;
  }
  return sums;
}

BlockRange choose_blocks(std::span<const double> throughputs, int32_t count) {
  const int32_t n = static_cast<int32_t>(throughputs.size());
  if (n == 0) return {};
  count = std::clamp(count, 1, n);
  std::vector<double> best, window;
  int32_t best_first = 0;
  for (int32_t first = 0; first + count <= n; first++) {
    window.assign(throughputs.begin() + first, throughputs.begin() + first + count);
    std::sort(window.begin(), window.end());
    if (first > 0 && !(window < best)) continue;
    best.swap(window);
    best_first = first;
  }
  return {best_first, best_first + count};
}

}  // namespace meadow::swarm
