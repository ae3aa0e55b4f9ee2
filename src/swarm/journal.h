// The journal: at every border between spans of a chain, the hidden states that crossed it, as the
// very bytes that were sent. Whoever takes over blocks that begin at a border is fed from it.
// Thread rule: one thread. Owns the bytes: positions x borders x n_embd values.
#pragma once
#include <cstdint>
#include <map>
#include <span>

#include "swarm/messages.h"

namespace meadow::swarm {

class Journal {
 public:
  explicit Journal(int64_t bytes_per_position) : bytes_per_position_(bytes_per_position) {}

  // Positions known at `border` (a block index): all of [0, length).
  int64_t length(int32_t border) const;
  // Adds what is new of `states`: the part at and after length(). False, and nothing happens, if it
  // would leave a hole or is no whole number of positions.
  bool append(int32_t border, const HiddenStates& states);
  // Copy of [first, first + count), which must be known.
  HiddenStates get(int32_t border, int64_t first, int64_t count) const;
  // Forgets everything at and after `position`, at every border.
  void truncate(int64_t position);
  // Forgets the borders that are not in `borders`.
  void keep_only(std::span<const int32_t> borders);
  int64_t bytes() const;

 private:
  int64_t bytes_per_position_;
  std::map<int32_t, Bytes> at_;  // border -> [bytes_per_position, length]
};

}  // namespace meadow::swarm
