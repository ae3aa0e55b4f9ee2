// Chooses the next token from logits. The same options, logits and history give the same token on
// every processor: fixed order, IEEE double, an exp of our own, a portable generator.
// Thread rule: one thread. Owns its generator and scratch memory.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "text/vocab.h"

namespace meadow::text {

struct SamplingOptions {
  float temperature = 0;         // >= 0; 0 takes the best token
  int32_t top_k = 0;             // only the k best; 0: all
  float top_p = 1;               // (0, 1]: the fewest best tokens that hold this share; 1: all
  float min_p = 0;               // [0, 1]: only tokens at least this likely, relative to the best
  float repetition_penalty = 1;  // > 0; above 1 makes tokens of the history less likely
  uint64_t seed = 0;
};

// kInvalidArgument names the option and its range.
Result<void> check(const SamplingOptions& options);

// Applied in this order: repetition penalty (logits above 0 are divided by it, others multiplied;
// once for each token, however often it occurs), temperature, top-k, top-p, min-p, draw. Equal
// logits rank by id, the lowest first.
class Sampler {
 public:
  // `options` pass check(); if they do not, every sample() returns its error.
  explicit Sampler(const SamplingOptions& options);

  // logits: f32 [n_vocab]; history: ids to penalise, those outside the vocabulary are ignored.
  // kInvalidArgument for no logits or one that is not finite (nothing is drawn then).
  Result<TokenId> sample(std::span<const float> logits, std::span<const TokenId> history);

 private:
  struct Candidate {
    double logit;  // after the penalty
    double weight;
    TokenId id;
  };
  void penalise(std::span<const TokenId> history);
  TokenId draw();
  void keep_top_k();
  void keep_top_p();

  SamplingOptions options_;
  Rng rng_;
  std::vector<Candidate> candidates_;
  std::vector<bool> seen_;
};

}  // namespace meadow::text
