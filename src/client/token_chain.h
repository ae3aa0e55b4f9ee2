// The blocks of a model as one function over a sequence, wherever they run: the port that Generator
// drives. LocalChain runs them in this process, SwarmChain at servers; both give the same bits.
// Thread rule: one thread per chain, cancel tokens from any.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace meadow::client {

class TokenChain {
 public:
  virtual ~TokenChain() = default;

  // Advances to first_position + n; first_position is at most position(), less rolls back.
  //   hidden: f32 [n_embd, n] entering block 0
  // Returns f32 [n_embd, first_position + n - from]: what leaves the last block for the positions
  // >= from, where first_position <= from < first_position + n. Blocks until done or cancelled.
  // After an error what is held below first_position is as before.
  virtual Result<std::vector<float>> step(int64_t first_position, std::span<const float> hidden,
                                          int64_t from, const CancelToken* cancel) = 0;
  // Positions held: the caches are valid below it.
  virtual int64_t position() const = 0;
  // Positions that the sequence may reach.
  virtual int64_t max_tokens() const = 0;
};

}  // namespace meadow::client
