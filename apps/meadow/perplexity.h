// Perplexity of a text by windows, as llama.cpp's tool of that name counts it, so that figures
// compare: the text is cut into windows of `context` tokens that begin anew; in each the second
// half is scored, every token from those before it in the window. Thread rule: values and pure
// functions; any thread. Owns nothing of a model.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace meadow::apps {

// Windows of exactly `context` tokens (at least 2); what is left over at the end is dropped. With
// `bos` other than kNoToken each begins with it, in place of its first token. At most `most` of
// them (0: all). kInvalidArgument if there is not even one.
Result<std::vector<std::vector<text::TokenId>>> windows_of(std::span<const text::TokenId> ids,
                                                           int64_t context, text::TokenId bos,
                                                           int64_t most);

// Positions of a window whose next token is scored: [context / 2, context - 1).
constexpr int64_t first_scored(int64_t context) { return context / 2; }
constexpr int64_t scored_per_window(int64_t context) { return context - 1 - context / 2; }

// -log of the probability that softmax(logits) gives `id`, in natural units. `id` is inside.
//   logits: f32 [n_vocab], finite
double surprise(std::span<const float> logits, text::TokenId id);

// Mean of surprises so far, and how far that may be off.
class Perplexity {
 public:
  void add(double surprise);

  int64_t tokens() const { return count_; }
  double mean() const;        // 0 of nothing
  double perplexity() const;  // exp(mean)
  // Standard error of perplexity(), as if tokens were independent; 0 of fewer than 2.
  double error() const;

 private:
  int64_t count_ = 0;
  double sum_ = 0, squares_ = 0;
};

}  // namespace meadow::apps
