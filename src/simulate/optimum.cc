#include "simulate/optimum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "swarm/placement.h"
#include "swarm/placement_plan.h"

namespace meadow::simulate {
namespace {

using swarm::Placed;

// Depth first over the orders of servers; keeps the best so far.
class Search {
 public:
  Search(int32_t n_blocks, std::span<const Candidate> servers)
      : n_blocks_(n_blocks),
        servers_(servers),
        sums_(static_cast<size_t>(n_blocks)),
        used_(servers.size()) {}

  double run() {
    double capacity = 0;
    for (const Candidate& s : servers_) capacity += s.tokens_per_s * s.length;
    place(0, capacity);
    return best_;
  }

 private:
  double sum(int32_t block) const { return sums_[static_cast<size_t>(block)]; }
  void add(int32_t first, const Candidate& s, double sign) {
    for (int32_t b = first; b < first + s.length; b++)
      sums_[static_cast<size_t>(b)] += sign * s.tokens_per_s;
  }
  // Blocks left of `block` have more than the best. `capacity`: tokens/s times blocks of those
  // left.
  void place(int32_t block, double capacity) {
    while (block < n_blocks_ && sum(block) > best_) block++;
    if (block == n_blocks_) {
      best_ = *std::min_element(sums_.begin(), sums_.end());
      return;
    }
    double missing = 0;
    for (int32_t b = block; b < n_blocks_; b++) missing += std::max(0.0, best_ - sum(b));
    if (missing >= capacity) return;
    for (size_t i = 0; i < servers_.size(); i++) {
      if (used_[i]) continue;
      const Candidate& s = servers_[i];
      const int32_t first = std::min(block, n_blocks_ - s.length);
      used_[i] = true;
      const std::vector<double> before = sums_;  // exact: no rounding piles up
      add(first, s, 1);
      place(block, capacity - s.tokens_per_s * s.length);
      sums_ = before;
      used_[i] = false;
    }
  }

  const int32_t n_blocks_;
  const std::span<const Candidate> servers_;
  std::vector<double> sums_;
  std::vector<char> used_;
  double best_ = 0;
};

double throughput(int32_t n_blocks, const std::vector<Placed>& servers) {
  std::vector<swarm::Throughput> spans;
  for (const Placed& s : servers) spans.push_back({s.blocks, s.tokens_per_s});
  const auto sums = swarm::block_throughputs(n_blocks, spans);
  return *std::min_element(sums.begin(), sums.end());
}

void join(int32_t n_blocks, std::vector<Placed>& servers, const Candidate& server) {
  std::vector<swarm::Throughput> spans;
  for (const Placed& s : servers) spans.push_back({s.blocks, s.tokens_per_s});
  const BlockRange blocks =
      swarm::choose_blocks(swarm::block_throughputs(n_blocks, spans), server.length);
  PeerId id;
  id.bytes = sha256(fmt::format("server {}", servers.size())).bytes;
  servers.push_back({id, blocks, server.tokens_per_s});
}

// Every block has somebody who stays or keeps it while the moves of a stage are made.
bool keeps_all(int32_t n_blocks, const std::vector<Placed>& servers,
               const std::vector<swarm::Move>& stage) {
  std::vector<int> holders(static_cast<size_t>(n_blocks));
  for (const Placed& s : servers) {
    BlockRange kept = s.blocks;
    for (const swarm::Move& m : stage)
      if (m.server == s.id)
        kept = {std::max(m.from.first, m.to.first), std::min(m.from.last, m.to.last)};
    for (int32_t b = kept.first; s.online && b < kept.last; b++) holders[static_cast<size_t>(b)]++;
  }
  return std::ranges::all_of(holders, [](int n) { return n > 0; });
}

// Rebalances until no plan gains enough; with `complete` all are online then.
void balance(OptimumCase& c, std::vector<Placed>& servers, std::span<const Candidate> present,
             const OptimumOptions& options, OptimumReport& report, bool complete) {
  const double optimum = best_throughput(c.n_blocks, present);
  for (;;) {
    const swarm::Plan plan = swarm::plan_moves(c.n_blocks, servers, {.min_gain = options.min_gain});
    if (plan.empty()) return;
    const double before = throughput(c.n_blocks, servers);
    c.plans++;
    const bool whole = keeps_all(c.n_blocks, servers, {});
    for (const auto& stage : plan.stages) {
      if (whole && !keeps_all(c.n_blocks, servers, stage)) report.plans_uncovering++;
      for (const swarm::Move& move : stage)
        for (Placed& s : servers)
          if (s.id == move.server) s.blocks = move.to;
      c.moves += static_cast<int>(stage.size());
    }
    const double after = throughput(c.n_blocks, servers);
    // speeds are rounded to thousandths in a plan
    if (after <= before || after < before * (1 + options.min_gain) - 0.01) report.plans_below++;
    if (optimum > 0 && complete) c.after_plan.push_back(after / optimum);
  }
}

OptimumReport::Share share_of(const std::vector<double>& values) {
  if (values.empty()) return {1, 1};
  double sum = 0;
  for (const double v : values) sum += v;
  return {sum / static_cast<double>(values.size()),
          *std::min_element(values.begin(), values.end())};
}

}  // namespace

double best_throughput(int32_t n_blocks, std::span<const Candidate> servers) {
  if (n_blocks < 1) return 0;
  std::vector<Candidate> fitting(servers.begin(), servers.end());
  for (Candidate& s : fitting) s.length = std::clamp(s.length, 1, n_blocks);
  return Search(n_blocks, fitting).run();
}

OptimumReport compare_with_optimum(const OptimumOptions& options,
                                   const std::function<void(int)>& progress) {
  Rng rng(options.seed);
  const auto between = [&](int least, int most) {
    return least + static_cast<int>(rng.below(static_cast<uint64_t>(most - least + 1)));
  };
  OptimumReport report;
  std::vector<double> joined, balanced, after_plan;
  while (static_cast<int>(report.cases.size()) < options.cases) {
    OptimumCase c;
    c.n_blocks = between(options.least_blocks, options.most_blocks);
    c.servers = between(options.least_servers, options.most_servers);
    std::vector<Candidate> candidates;
    for (int i = 0; i < c.servers; i++)
      candidates.push_back(
          {between(1, options.longest_span),
           options.slowest * std::pow(options.fastest / options.slowest, rng.uniform())});
    c.optimum = best_throughput(c.n_blocks, candidates);
    if (c.optimum <= 0) {
      if (++report.uncoverable > 100 * options.cases) break;  // nearly all are
      continue;
    }
    std::vector<Placed> only_joined, servers;
    for (size_t i = 0; i < candidates.size(); i++) {
      join(c.n_blocks, only_joined, candidates[i]);
      // Others may make room while the newcomer loads, if the model is not served yet anyway.
      join(c.n_blocks, servers, candidates[i]);
      servers.back().online = false;
      balance(c, servers, std::span(candidates).first(i + 1), options, report, false);
      servers.back().online = true;
      balance(c, servers, std::span(candidates).first(i + 1), options, report, true);
    }
    c.joined = throughput(c.n_blocks, only_joined);
    c.balanced = throughput(c.n_blocks, servers);
    joined.push_back(c.joined / c.optimum);
    balanced.push_back(c.balanced / c.optimum);
    after_plan.insert(after_plan.end(), c.after_plan.begin(), c.after_plan.end());
    report.cases.push_back(std::move(c));
    if (progress) progress(static_cast<int>(report.cases.size()));
  }
  report.joined = share_of(joined);
  report.balanced = share_of(balanced);
  report.after_plan = share_of(after_plan);
  return report;
}

}  // namespace meadow::simulate
