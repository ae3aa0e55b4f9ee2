// What a span has computed and its client has not acknowledged: the source of resends.
// Thread rule: one thread, or the owner's lock. Owns the bytes; their sum is bounded.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>

#include "swarm/messages.h"

namespace meadow::swarm {

class KeptOutputs {
 public:
  KeptOutputs(int64_t bytes_per_position, int64_t max_bytes)
      : bytes_per_position_(bytes_per_position), max_bytes_(max_bytes) {}

  // Appends; the output starts where the kept ones end (after truncate(), if it rolls back).
  // Forgets the oldest when the bound is passed.
  void append(const HiddenStates& output);
  // Forgets everything at and after `position`.
  void truncate(int64_t position);
  // Forgets everything before `position`.
  void acknowledge(int64_t position);
  // The outputs of [first, end); nothing if some are not kept.
  std::optional<HiddenStates> get(int64_t first, int64_t end) const;
  int64_t begin() const { return begin_; }
  int64_t end() const { return begin_ + positions(); }

 private:
  int64_t positions() const { return static_cast<int64_t>(data_.size()) / bytes_per_position_; }

  int64_t bytes_per_position_, max_bytes_;
  int64_t begin_ = 0;         // first position kept
  std::deque<uint8_t> data_;  // [bytes_per_position, end() - begin()]
};

}  // namespace meadow::swarm
