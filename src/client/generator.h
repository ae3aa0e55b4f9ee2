// From a prompt to streamed text: tokenizer, model, sampler, stop strings; the context is kept
// between calls, so that a chat pays only for what is new.
// Thread rule: one thread per object; cancel tokens from any. Borrows tokenizer, model and clock,
// which must outlive it.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "client/token_model.h"
#include "text/sampler.h"
#include "text/tokenizer.h"

namespace meadow::client {

enum class StopReason {
  kEndOfText,   // the model ended its turn
  kStopString,  // one of GenerateOptions::stop
  kMaxTokens,
  kContextFull,
  kCancelled,
};
std::string_view name(StopReason reason);  // "end", "stop", "max-tokens", "context", "cancelled"

struct GenerateOptions {
  text::SamplingOptions sampling;
  std::vector<std::string> stop;  // texts that end the answer and are not part of it
  int64_t max_tokens = 256;       // of the answer
  int64_t chunk = 256;            // prompt tokens per step: how often progress and cancel are seen
  bool ignore_end = false;        // goes on after an end-of-text token (benches)
};

// What a caller may watch. Any may be empty.
struct GenerateHooks {
  std::function<void(std::string_view text)> on_text;          // whole UTF-8, in order
  std::function<void(int64_t done, int64_t total)> on_prompt;  // prompt tokens computed
  std::function<void(text::TokenId token)> on_token;           // after each, before its text
};

struct GenerateResult {
  std::string text;
  std::vector<text::TokenId> tokens;  // without the end-of-text token
  StopReason reason = StopReason::kMaxTokens;
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;       // of the prompt, already in the caches
  Duration time_to_first_token{};  // from the call
  Duration decode_time{};          // from the first token to the last

  // Tokens after the first one per second; 0 if there was none.
  double tokens_per_s() const;
};

// Refuses what cannot work, before any work, as kInvalidArgument: an empty prompt, one that leaves
// no room for an answer in a context of `context` positions (both numbers are named), ids outside
// the vocabulary, nonsense in the options.
Result<void> check_request(std::span<const text::TokenId> prompt, const GenerateOptions& options,
                           int64_t context, int32_t vocab_size);

class Generator {
 public:
  Generator(const text::Tokenizer& tokenizer, TokenModel& model, const Clock& clock);

  // Continues `prompt`, once check_request() lets it through. What it shares with the sequence so
  // far is not computed again. Blocks until the answer ends or `cancel` is set: a cancelled answer
  // is a result, not an error. After an error the object can be used again.
  Result<GenerateResult> generate(std::span<const text::TokenId> prompt,
                                  const GenerateOptions& options, const GenerateHooks& hooks,
                                  const CancelToken* cancel);

  // Tokens whose caches stand.
  std::span<const text::TokenId> context() const { return context_; }
  // Forgets the sequence.
  void reset() { context_.clear(); }

 private:
  class Answer;
  // Computes prompt tokens from `first` on; logits of the last.
  Result<std::vector<float>> prefill(std::span<const text::TokenId> prompt, int64_t first,
                                     const GenerateOptions& options, const GenerateHooks& hooks,
                                     const CancelToken* cancel);
  // Feeds tokens at the end of the context.
  Result<std::vector<float>> advance(std::span<const text::TokenId> ids, bool want_logits,
                                     const CancelToken* cancel);

  const text::Tokenizer& tokenizer_;
  TokenModel& model_;
  const Clock& clock_;
  std::vector<text::TokenId> context_;
};

}  // namespace meadow::client
