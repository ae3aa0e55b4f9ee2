// Where every server of a swarm stands and what each block gets from them, in whole numbers, so
// that equal views give equal plans on every machine and in any order of adding. The inside of
// placement_plan.cc.
// Thread rule: one thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace meadow::swarm {

// A server's span as a piece that can be laid anywhere in the model.
struct Piece {
  int32_t length = 0;  // blocks, at least 1
  int64_t rate = 0;    // thousandths of a token/s, at least 1
  int32_t start = 0;
  bool online = true;  // answers for its blocks now; else it is loading them
  bool movable = true;
  BlockRange kept;  // while it loads: what it answers for

  BlockRange at(int32_t first) const { return {first, first + length}; }
  BlockRange blocks() const { return at(start); }
};

class Layout {
 public:
  // Every piece lies inside [0, n_blocks), n_blocks >= 1.
  Layout(int32_t n_blocks, std::vector<Piece> pieces);

  int32_t n_blocks() const { return static_cast<int32_t>(sums_.size()); }
  size_t size() const { return pieces_.size(); }
  const Piece& piece(size_t i) const { return pieces_[i]; }
  int64_t sum(int32_t block) const { return sums_[static_cast<size_t>(block)]; }
  // Where the piece lay at first.
  int32_t home(size_t i) const { return homes_[i]; }

  void move(size_t i, int32_t start);  // O(length)
  // Where the pieces lie is home from now on, and they answer there. O(pieces + blocks).
  void settle();
  // What the whole swarm passes: the sum at its weakest block. O(blocks).
  int64_t throughput() const;
  // What is missing until every block gets `level`. O(blocks).
  int64_t deficit(int64_t level) const;
  // No placement of these pieces passes more: capacity over blocks.
  int64_t bound() const;
  // Somebody answers for every block. O(blocks).
  bool whole() const;
  // Where piece i may begin such that every block that is answered for stays so while all
  // pieces go from home to where they lie: [first, last]. A piece that keeps a block answers for
  // it all the time.
  struct Starts {
    int32_t first, last;
    bool contains(int32_t start) const { return start >= first && start <= last; }
  };
  Starts safe_starts(size_t i) const;
  Starts all_starts(size_t i) const { return {0, n_blocks() - piece(i).length}; }

 private:
  void add(size_t i, int sign);

  std::vector<Piece> pieces_;
  std::vector<int32_t> homes_;  // [pieces]
  std::vector<int64_t> sums_;   // [n_blocks]
  std::vector<int32_t>
      keepers_;  // [n_blocks] pieces online that hold it at home and where they lie
};

struct BestStart {
  int32_t start = 0;
  int64_t gain = 0;  // by how much the deficit shrinks; 0: stays
};

// Finds layouts by local search: pieces are laid where they reduce the deficit most; where no
// single piece helps any more, a few are laid at random over blocks that lack something, and the
// result is kept if it lacks less, or as much with no more pieces away from home (iterated local
// search). Deterministic.
class LayoutSearch {
 public:
  // `effort`: blocks looked at until the search gives up.
  // `safe`: takes no step that leaves a block without holder.
  LayoutSearch(Layout& layout, int64_t effort, uint64_t seed, bool safe);

  // True if the layout was brought to throughput() >= level. If not, it is left where the deficit
  // was least.
  bool reach(int64_t level, bool frugal = false);
  bool spent() const { return effort_ <= 0; }
  void set_effort(int64_t effort) { effort_ = effort; }

 private:
  BestStart best_start(size_t i, int64_t level);
  Layout::Starts starts(size_t i) const {
    return safe_ ? layout_.safe_starts(i) : layout_.all_starts(i);
  }
  int64_t descend(int64_t level);  // the deficit reached
  bool kick(int64_t level, std::vector<std::pair<size_t, int32_t>>& undo);
  // The most that a piece of this length could fill of any window.
  int64_t widest_gap(int32_t length);
  void note_gaps(int64_t level);
  void count_away();
  uint64_t next_random();
  uint64_t below(uint64_t n) { return next_random() % n; }

  Layout& layout_;
  int64_t effort_;
  uint64_t random_;
  bool safe_;
  bool frugal_ = false;
  size_t away_ = 0;              // pieces that are not at home: fewer are better
  std::vector<int64_t> fill_;    // [n_blocks], scratch
  std::vector<int64_t> gaps_;    // [n_blocks + 1], prefix sums of what is missing
  std::vector<int64_t> widest_;  // by length; -1: not computed
};

}  // namespace meadow::swarm
