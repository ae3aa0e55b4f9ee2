// Blocks at servers of a swarm: an inference session as a TokenChain.
// Thread rule: one thread. Borrows the session, which must outlive it.
#pragma once
#include "client/token_chain.h"
#include "swarm/inference_session.h"

namespace meadow::client {

class SwarmChain final : public TokenChain {
 public:
  // The session is open; max_tokens as in its options.
  SwarmChain(swarm::InferenceSession& session, int64_t max_tokens)
      : session_(session), max_tokens_(max_tokens) {}

  Result<std::vector<float>> step(int64_t first_position, std::span<const float> hidden,
                                  int64_t from, const CancelToken* cancel) override {
    return session_.step(first_position, hidden, from, cancel);
  }
  int64_t position() const override { return session_.position(); }
  int64_t max_tokens() const override { return max_tokens_; }

 private:
  swarm::InferenceSession& session_;
  int64_t max_tokens_;
};

}  // namespace meadow::client
