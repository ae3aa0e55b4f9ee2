#include "swarm/placement_layout.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace meadow::swarm {
namespace {

constexpr size_t kSteepest = 64;  // pieces
// With more of them one descent comes close to the bound, and kicks cost more than they find.
constexpr size_t kKicked = 256;

}  // namespace

Layout::Layout(int32_t n_blocks, std::vector<Piece> pieces)
    : pieces_(std::move(pieces)),
      sums_(static_cast<size_t>(n_blocks)),
      keepers_(static_cast<size_t>(n_blocks)) {
  // by differences: O(pieces + blocks)
  for (const Piece& piece : pieces_) {
    MEADOW_CHECK(piece.length >= 1 && piece.start >= 0 && piece.start + piece.length <= n_blocks);
    const auto first = static_cast<size_t>(piece.start);
    const size_t last = first + static_cast<size_t>(piece.length);
    sums_[first] += piece.rate;
    if (last < sums_.size()) sums_[last] -= piece.rate;
  }
  homes_.resize(pieces_.size());
  settle();
  for (size_t b = 1; b < sums_.size(); b++) {
    sums_[b] += sums_[b - 1];
  }
}

void Layout::add(size_t i, int sign) {
  const Piece& piece = pieces_[i];
  const BlockRange home = piece.at(homes_[i]);
  for (int32_t b = piece.start; b < piece.start + piece.length; b++) {
    sums_[static_cast<size_t>(b)] += sign * piece.rate;
    if (piece.online && home.contains(b)) keepers_[static_cast<size_t>(b)] += sign;
  }
}

void Layout::move(size_t i, int32_t start) {
  add(i, -1);
  pieces_[i].start = start;
  add(i, +1);
}

void Layout::settle() {
  for (size_t i = 0; i < pieces_.size(); i++) homes_[i] = pieces_[i].start;
  // by differences: O(pieces + blocks)
  std::fill(keepers_.begin(), keepers_.end(), 0);
  for (const Piece& piece : pieces_) {
    const BlockRange answered = piece.online ? piece.blocks() : piece.kept;
    if (answered.empty()) continue;
    keepers_[static_cast<size_t>(answered.first)]++;
    if (answered.last < n_blocks()) keepers_[static_cast<size_t>(answered.last)]--;
  }
  for (size_t b = 1; b < keepers_.size(); b++) keepers_[b] += keepers_[b - 1];
}

int64_t Layout::throughput() const { return *std::min_element(sums_.begin(), sums_.end()); }

int64_t Layout::deficit(int64_t level) const {
  int64_t missing = 0;
  for (const int64_t sum : sums_) missing += std::max<int64_t>(0, level - sum);
  return missing;
}

int64_t Layout::bound() const {
  int64_t capacity = 0;
  for (const Piece& piece : pieces_) capacity += piece.rate * piece.length;
  return capacity / n_blocks();
}

bool Layout::whole() const {
  return std::ranges::all_of(keepers_, [](int32_t n) { return n > 0; });
}

Layout::Starts Layout::safe_starts(size_t i) const {
  const Piece& piece = pieces_[i];
  Starts starts = all_starts(i);
  if (!piece.online) return starts;
  const int32_t first = std::max(piece.start, homes_[i]);
  const int32_t last = std::min(piece.start, homes_[i]) + piece.length;
  for (int32_t b = first; b < last; b++) {
    if (keepers_[static_cast<size_t>(b)] > 1) continue;
    starts.first = std::max(starts.first, b + 1 - piece.length);
    starts.last = std::min(starts.last, b);
  }
  return starts;
}

LayoutSearch::LayoutSearch(Layout& layout, int64_t effort, uint64_t seed, bool safe)
    : layout_(layout),
      effort_(effort),
      random_(seed),
      safe_(safe),
      fill_(static_cast<size_t>(layout.n_blocks())),
      gaps_(static_cast<size_t>(layout.n_blocks()) + 1),
      widest_(static_cast<size_t>(layout.n_blocks()) + 1, -1) {}

// splitmix64: one multiplication chain is all that kicks need.
uint64_t LayoutSearch::next_random() {
  uint64_t z = (random_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void LayoutSearch::note_gaps(int64_t level) {
  for (int32_t b = 0; b < layout_.n_blocks(); b++) {
    const auto at = static_cast<size_t>(b);
    gaps_[at + 1] = gaps_[at] + std::max<int64_t>(0, level - layout_.sum(b));
  }
  std::fill(widest_.begin(), widest_.end(), -1);
  effort_ -= layout_.n_blocks();
}

int64_t LayoutSearch::widest_gap(int32_t length) {
  int64_t& widest = widest_[static_cast<size_t>(length)];
  if (widest >= 0) return widest;
  widest = 0;
  const auto n = static_cast<size_t>(length);
  for (size_t first = 0; first + n < gaps_.size(); first++)
    widest = std::max(widest, gaps_[first + n] - gaps_[first]);
  effort_ -= layout_.n_blocks();
  return widest;
}

// What the piece fills at its place and could fill at any other, all of it counted as if it were
// not there.
BestStart LayoutSearch::best_start(size_t i, int64_t level) {
  const Piece& piece = layout_.piece(i);
  int64_t here = 0, returned = 0;  // returned: what would be missing at its place without it
  for (int32_t b = piece.start; b < piece.start + piece.length; b++) {
    const int64_t missing = std::max<int64_t>(0, level - (layout_.sum(b) - piece.rate));
    here += std::min(piece.rate, missing);
    returned += std::min(piece.rate, missing);
  }
  effort_ -= piece.length;
  if (here >= piece.rate * piece.length) return {piece.start, 0};
  if (here >= widest_gap(piece.length) + returned) return {piece.start, 0};
  if (widest_gap(piece.length) == 0) return {piece.start, 0};

  const int32_t n = layout_.n_blocks();
  effort_ -= n;
  const BlockRange own = piece.blocks();
  for (int32_t b = 0; b < n; b++) {
    const int64_t sum = layout_.sum(b) - (own.contains(b) ? piece.rate : 0);
    fill_[static_cast<size_t>(b)] = std::min(piece.rate, std::max<int64_t>(0, level - sum));
  }
  int64_t window = 0;
  for (int32_t b = 0; b < piece.length; b++) window += fill_[static_cast<size_t>(b)];
  BestStart best{piece.start, 0};
  const Layout::Starts allowed = starts(i);
  for (int32_t first = 0;; first++) {
    if (window - here > best.gain && allowed.contains(first)) best = {first, window - here};
    if (first + piece.length >= n) break;
    window += fill_[static_cast<size_t>(first + piece.length)] - fill_[static_cast<size_t>(first)];
  }
  return best;
}

// Small layouts: each time the one step that helps most. Large ones: every piece in turn, from the
// first one on, so that like views move like servers.
int64_t LayoutSearch::descend(int64_t level) {
  int64_t deficit = layout_.deficit(level);
  note_gaps(level);
  const bool steepest = layout_.size() <= kSteepest;
  size_t idle = 0;  // pieces in a row that could not help
  size_t chosen = layout_.size();
  BestStart step;
  for (size_t i = 0; deficit > 0 && effort_ > 0; i = (i + 1) % layout_.size()) {
    BestStart best;
    if (layout_.piece(i).movable) best = best_start(i, level);
    if (best.gain > step.gain) {
      step = best;
      chosen = i;
    }
    const bool over = ++idle >= layout_.size();
    if (step.gain > 0 && (over || !steepest)) {
      layout_.move(chosen, step.start);
      deficit -= step.gain;
      note_gaps(level);
      step = {};
      idle = 0;
    } else if (over) {
      break;
    }
  }
  return deficit;
}

// Lays a few pieces at random over blocks that lack something; `undo` gets where they lay.
bool LayoutSearch::kick(int64_t level, std::vector<std::pair<size_t, int32_t>>& undo) {
  std::vector<int32_t> lacking;
  for (int32_t b = 0; b < layout_.n_blocks(); b++)
    if (layout_.sum(b) < level) lacking.push_back(b);
  if (lacking.empty()) return false;
  const uint64_t pieces = 1 + below(3);
  for (uint64_t k = 0; k < pieces; k++) {
    const auto i = static_cast<size_t>(below(layout_.size()));
    const Piece& piece = layout_.piece(i);
    if (!piece.movable || piece.length >= layout_.n_blocks()) continue;
    const int32_t block = lacking[static_cast<size_t>(below(lacking.size()))];
    const int32_t offset = static_cast<int32_t>(below(static_cast<uint64_t>(piece.length)));
    undo.emplace_back(i, piece.start);
    const Layout::Starts allowed = starts(i);
    layout_.move(i, std::clamp(block - offset, allowed.first, allowed.last));
  }
  effort_ -= layout_.n_blocks();
  return true;
}

void LayoutSearch::count_away() {
  away_ = 0;
  for (size_t i = 0; i < layout_.size(); i++) away_ += layout_.piece(i).start != layout_.home(i);
}

bool LayoutSearch::reach(int64_t level, bool frugal) {
  frugal_ = frugal;
  if (layout_.size() == 0) return false;
  int64_t best = descend(level);
  count_away();
  std::vector<int32_t> kept(layout_.size());
  std::vector<std::pair<size_t, int32_t>> undo;
  while (best > 0 && effort_ > 0 && layout_.size() <= kKicked) {
    for (size_t i = 0; i < kept.size(); i++) kept[i] = layout_.piece(i).start;
    effort_ -= static_cast<int64_t>(kept.size());
    undo.clear();
    if (!kick(level, undo)) break;
    const size_t away_before = away_;
    const int64_t deficit = descend(level);
    count_away();
    if (deficit < best || (deficit == best && (!frugal_ || away_ <= away_before))) {
      best = deficit;
      continue;
    }
    away_ = away_before;
    for (size_t i = 0; i < kept.size(); i++)
      if (layout_.piece(i).start != kept[i]) layout_.move(i, kept[i]);
  }
  return best <= 0;
}

}  // namespace meadow::swarm
