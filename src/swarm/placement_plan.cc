#include "swarm/placement_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "swarm/placement_layout.h"

namespace meadow::swarm {
namespace {

constexpr double kUnits = 1000;        // per token/s
constexpr double kBelieved = 16;       // times the median
constexpr double kMaxRate = 1e7;       // tokens/s that anybody is believed to have
constexpr double kTargetShare = 0.95;  // of the best found; the rest buys fewer moves
constexpr size_t kStaged = 64;         // servers up to which moves in stages are looked for
constexpr int kLevels = 12;            // steps of bisection between now and the bound
constexpr uint64_t kTargets = 6;       // tried until one can be walked to

int64_t units(double tokens_per_s) {
  if (!(tokens_per_s > 0)) return 1;
  return std::max<int64_t>(1, std::llround(std::min(tokens_per_s, kMaxRate) * kUnits));
}
double tokens(int64_t rate) { return static_cast<double>(rate) / kUnits; }

// The least throughput that is a gain of `share` over `now`.
int64_t enough(int64_t now, double share) {
  return std::max(now + 1, static_cast<int64_t>(
                               std::ceil(static_cast<double>(now) * (1 + std::max(share, 0.0)))));
}

// Blocks that one search for a level may look at: kicks pay while servers are few; with many, one
// pass over all of them comes close to the bound.
int64_t effort_for(size_t servers) {
  const auto n = static_cast<int64_t>(servers);
  return std::clamp<int64_t>(5000 * n, 30'000, 300'000) + 200 * n;
}

std::vector<int32_t> starts_of(const Layout& layout) {
  std::vector<int32_t> starts(layout.size());
  for (size_t i = 0; i < starts.size(); i++) starts[i] = layout.piece(i).start;
  return starts;
}
void restore(Layout& layout, const std::vector<int32_t>& starts) {
  for (size_t i = 0; i < starts.size(); i++)
    if (layout.piece(i).start != starts[i]) layout.move(i, starts[i]);
}

// The best throughput found, and the layout left there; 0 if not even `least` is reached.
int64_t raise(Layout& layout, int64_t least, int64_t effort, bool safe, uint64_t seed) {
  LayoutSearch search(layout, effort, seed, safe);
  if (!search.reach(least)) return 0;
  int64_t low = layout.throughput(), high = layout.bound();
  std::vector<int32_t> best = starts_of(layout);
  for (int step = 0; step < kLevels && high - low > low / 256 + 1; step++) {
    const int64_t level = low + (high - low + 1) / 2;
    search.set_effort(effort);
    if (search.reach(level)) {
      low = layout.throughput();
      best = starts_of(layout);
    } else {
      high = level - 1;
      restore(layout, best);
    }
  }
  return low;
}

// Sends home every piece that is not needed for `level`, those that fill least first.
void prune(Layout& layout, int64_t level) {
  std::vector<size_t> moved;
  for (size_t i = 0; i < layout.size(); i++)
    if (layout.piece(i).start != layout.home(i)) moved.push_back(i);
  std::stable_sort(moved.begin(), moved.end(), [&](size_t a, size_t b) {
    return layout.piece(a).rate * layout.piece(a).length <
           layout.piece(b).rate * layout.piece(b).length;
  });
  for (const size_t i : moved) {
    const int32_t away = layout.piece(i).start;
    layout.move(i, layout.home(i));
    if (layout.throughput() < level) layout.move(i, away);
  }
}

struct Step {
  size_t piece;
  int32_t to;
};

// Finds steps from home to a target, one server at a time, none of which leaves a block without
// holder. Where every server that is to move is the last holder of something, another steps in for
// a while.
class Walk {
 public:
  Walk(Layout& layout, std::vector<int32_t> target, int64_t level, int64_t effort)
      : layout_(layout), target_(std::move(target)), level_(level), effort_(effort) {}

  // The layout is left at the target, or anywhere if there is nothing.
  std::optional<std::vector<Step>> find() {
    for (int tries = 0; tries < kTries; tries++) {
      if (advance()) continue;
      if (arrived()) return std::move(steps_);
      if (helps_++ >= kHelps || !help()) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kTries = 200;
  static constexpr int kHelps = 6;
  using Worth = std::pair<int64_t, int64_t>;

  bool arrived() const {
    for (size_t i = 0; i < target_.size(); i++)
      if (layout_.piece(i).start != target_[i]) return false;
    return true;
  }
  Worth worth() const { return {layout_.throughput(), -layout_.deficit(level_)}; }
  void take(Step step) {
    layout_.move(step.piece, step.to);
    layout_.settle();
    steps_.push_back(step);
  }
  bool may(Step step) const {
    return layout_.piece(step.piece).movable && layout_.safe_starts(step.piece).contains(step.to);
  }
  // The step towards the target that leaves the swarm best off.
  bool advance() {
    std::optional<std::pair<Worth, Step>> best;
    for (size_t i = 0; i < target_.size(); i++) {
      const int32_t from = layout_.piece(i).start;
      if (from == target_[i] || !may({i, target_[i]})) continue;
      layout_.move(i, target_[i]);
      if (const Worth w = worth(); !best || w > best->first) best = {w, {i, target_[i]}};
      layout_.move(i, from);
    }
    if (best) take(best->second);
    return best.has_value();
  }
  // A step of anybody after which somebody can go where it is to be.
  bool help() {
    std::optional<std::pair<Worth, Step>> best;
    for (size_t i = 0; i < target_.size(); i++) {
      const int32_t from = layout_.piece(i).start;
      const auto [first, last] = layout_.safe_starts(i);
      for (int32_t to = first; to <= last; to++) {
        if (to == from || !may({i, to}) || tried_.contains({i, to})) continue;
        effort_ -= layout_.n_blocks() + static_cast<int64_t>(layout_.size()) * 8;
        if (effort_ < 0) return false;
        Layout after = layout_;
        after.move(i, to);
        after.settle();
        if (!frees(after, i)) continue;
        const Worth w{after.throughput(), -after.deficit(level_)};
        if (!best || w > best->first) best = {w, {i, to}};
      }
    }
    if (!best) return false;
    tried_.insert({best->second.piece, best->second.to});
    take(best->second);
    return true;
  }
  bool frees(const Layout& layout, size_t helper) const {
    for (size_t k = 0; k < target_.size(); k++)
      if (k != helper && layout.piece(k).start != target_[k] && layout.piece(k).movable &&
          layout.safe_starts(k).contains(target_[k]))
        return true;
    return false;
  }

  Layout& layout_;
  const std::vector<int32_t> target_;
  const int64_t level_;
  int64_t effort_;
  std::vector<Step> steps_;
  std::set<std::pair<size_t, int32_t>> tried_;
  int helps_ = 0;
};

// Steps that may be made at once, joined.
std::vector<std::vector<Step>> stages_of(Layout layout, const std::vector<Step>& steps) {
  std::vector<std::vector<Step>> stages;
  const bool whole = layout.whole();
  std::set<size_t> moving;
  for (const Step& step : steps) {
    const bool fits = !stages.empty() && !moving.contains(step.piece) &&
                      (!whole || layout.safe_starts(step.piece).contains(step.to));
    if (!fits) {
      layout.settle();
      moving.clear();
      stages.emplace_back();
    }
    layout.move(step.piece, step.to);
    moving.insert(step.piece);
    stages.back().push_back(step);
  }
  return stages;
}

std::vector<Step> all_at_once(const Layout& layout) {
  std::vector<Step> steps;
  for (size_t i = 0; i < layout.size(); i++)
    if (layout.piece(i).start != layout.home(i)) steps.push_back({i, layout.piece(i).start});
  return steps;
}

// The best layout above `least` that can be reached, and how.
struct Found {
  int64_t after = 0;
  std::vector<std::vector<Step>> stages;
};
std::optional<Found> search(const Layout& now, int64_t least, int64_t effort, bool safe,
                            uint64_t seed, bool& reached) {
  Layout layout = now;
  const int64_t best = raise(layout, least, effort, safe, seed);
  reached = best >= least;
  if (!reached) return std::nullopt;
  const int64_t level =
      std::max(least, static_cast<int64_t>(static_cast<double>(best) * kTargetShare));
  Layout few = now;
  if (LayoutSearch(few, effort, seed, safe).reach(level, true)) layout = std::move(few);
  prune(layout, level);
  Found found{layout.throughput(), {all_at_once(layout)}};
  if (safe || !now.whole()) return found;
  Layout walked = now;
  auto steps = Walk(walked, starts_of(layout), level, effort).find();
  if (!steps) return std::nullopt;
  found.stages = stages_of(now, *steps);
  return found;
}

// With few servers most blocks have one holder, and the best is often reached in stages only; else
// the search is for moves that can all be made at once.
std::optional<Found> best_of(const Layout& now, int64_t least, int64_t effort) {
  bool reached = true;
  if (now.size() <= kStaged || !now.whole())
    for (uint64_t target = 0; target < kTargets && reached; target++)
      if (auto found = search(now, least, effort, false, target, reached)) return found;
  if (!reached || !now.whole()) return std::nullopt;
  return search(now, least, effort, true, 0, reached);
}

// A server is believed to be at most so many times as fast as the median: who lies about its speed
// draws the others away from its blocks.
double believed(std::span<const Placed> servers) {
  std::vector<double> speeds;
  speeds.reserve(servers.size());
  for (const Placed& server : servers) speeds.push_back(server.tokens_per_s);
  if (speeds.empty()) return 0;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  return kBelieved * *middle;
}

BlockRange within(BlockRange kept, BlockRange blocks) {
  return {std::max(kept.first, blocks.first), std::min(kept.last, blocks.last)};
}

struct View {
  std::vector<Placed> servers;  // spans inside the model
  Layout layout;
};
View view_of(int32_t n_blocks, std::vector<Placed> servers) {
  const double most = believed(servers);
  std::vector<Piece> pieces;
  pieces.reserve(servers.size());
  for (const Placed& s : servers)
    pieces.push_back({s.blocks.size(), units(std::min(s.tokens_per_s, most)), s.blocks.first,
                      s.online, s.movable && s.online,
                      s.online ? BlockRange{} : within(s.kept, s.blocks)});
  return {std::move(servers), Layout(n_blocks, std::move(pieces))};
}

}  // namespace

Plan plan_moves(int32_t n_blocks, std::span<const Placed> servers, const PlanOptions& options) {
  Plan plan;
  if (n_blocks < 1) return plan;
  std::vector<Placed> inside;
  inside.reserve(servers.size());
  for (const Placed& server : servers) {
    inside.push_back(server);
    BlockRange& blocks = inside.back().blocks;
    blocks = {std::max(blocks.first, 0), std::min(blocks.last, n_blocks)};
    if (blocks.empty()) inside.pop_back();
  }
  View view = view_of(n_blocks, std::move(inside));
  const int64_t now = view.layout.throughput();
  plan.now = plan.after = tokens(now);
  const int64_t least = enough(now, options.min_gain);
  if (view.layout.bound() < least) return plan;

  // in an order on which all agree
  std::sort(view.servers.begin(), view.servers.end(),
            [](const Placed& a, const Placed& b) { return a.id < b.id; });
  view = view_of(n_blocks, std::move(view.servers));
  const auto found = best_of(view.layout, least, effort_for(view.layout.size()));
  if (!found) return plan;
  plan.after = tokens(found->after);
  std::vector<int32_t> starts = starts_of(view.layout);
  for (const auto& steps : found->stages) {
    auto& stage = plan.stages.emplace_back();
    for (const auto& [i, to] : steps) {
      const Piece& piece = view.layout.piece(i);
      stage.push_back({view.servers[i].id, piece.at(std::exchange(starts[i], to)), piece.at(to)});
    }
    std::sort(stage.begin(), stage.end(),
              [](const Move& a, const Move& b) { return a.server < b.server; });
  }
  return plan;
}

}  // namespace meadow::swarm
