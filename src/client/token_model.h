// A whole language model as a function from tokens to logits: embeddings and head of this process
// around a chain of blocks. Generator asks nothing more of a model.
// Thread rule: one thread per object, cancel tokens from any.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "client/token_chain.h"
#include "engine/model_ends.h"

namespace meadow::client {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Advances to first_position + ids.size() (ids not empty; first_position <= position(), less
  // rolls back). Returns the logits after the last of them, f32 [n_vocab]; empty if !want_logits.
  // Blocks until done or cancelled.
  virtual Result<std::vector<float>> advance(int64_t first_position, std::span<const int32_t> ids,
                                             bool want_logits, const CancelToken* cancel) = 0;
  virtual int64_t position() const = 0;
  virtual int64_t max_tokens() const = 0;
};

// Borrows both parts, which must outlive it.
class ChainModel final : public TokenModel {
 public:
  ChainModel(engine::ModelEnds& ends, TokenChain& chain) : ends_(ends), chain_(chain) {}

  Result<std::vector<float>> advance(int64_t first_position, std::span<const int32_t> ids,
                                     bool want_logits, const CancelToken* cancel) override {
    MEADOW_TRY(auto hidden, ends_.embed(ids));
    const int64_t last = first_position + static_cast<int64_t>(ids.size()) - 1;
    MEADOW_TRY(auto out, chain_.step(first_position, hidden, last, cancel));
    if (!want_logits) return std::vector<float>{};
    return ends_.logits(out);
  }
  int64_t position() const override { return chain_.position(); }
  int64_t max_tokens() const override { return chain_.max_tokens(); }

 private:
  engine::ModelEnds& ends_;
  TokenChain& chain_;
};

}  // namespace meadow::client
