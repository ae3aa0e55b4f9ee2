#include "client/generator.h"

#include <algorithm>
#include <cmath>

#include "text/stop_strings.h"
#include "text/utf8_stream.h"

namespace meadow::client {

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::kEndOfText:
      return "end";
    case StopReason::kStopString:
      return "stop";
    case StopReason::kMaxTokens:
      return "max-tokens";
    case StopReason::kContextFull:
      return "context";
    case StopReason::kCancelled:
      return "cancelled";
  }
  return "end";
}

double GenerateResult::tokens_per_s() const {
  if (tokens.size() < 2 || decode_time <= Duration::zero()) return 0;
  return static_cast<double>(tokens.size() - 1) / seconds(decode_time);
}

Result<void> check_request(std::span<const text::TokenId> prompt, const GenerateOptions& options,
                           int64_t context, int32_t vocab_size) {
  if (prompt.empty())
    return fail(Code::kInvalidArgument, "the prompt is empty: expected at least one token");
  const auto size = static_cast<int64_t>(prompt.size());
  if (size >= context)
    return fail(Code::kInvalidArgument,
                "the prompt has {} tokens, the context holds {} and an answer needs at least one: "
                "shorten the prompt or raise --context",
                size, context);
  for (text::TokenId id : prompt)
    if (id < 0 || id >= vocab_size)
      return fail(Code::kInvalidArgument, "token {} is outside the vocabulary of {}", id,
                  vocab_size);
  if (options.max_tokens < 1)
    return fail(Code::kInvalidArgument, "max-tokens is {}: expected at least 1",
                options.max_tokens);
  if (options.chunk < 1)
    return fail(Code::kInvalidArgument, "chunk is {}: expected at least 1", options.chunk);
  MEADOW_TRY_VOID(text::StopStrings::create(options.stop));
  return text::check(options.sampling);
}

// The text of one answer as it grows.
class Generator::Answer {
 public:
  Answer(const text::Tokenizer& tokenizer, const GenerateHooks& hooks, text::StopStrings stops)
      : tokenizer_(tokenizer), hooks_(hooks), stops_(std::move(stops)) {}

  // True if a stop string is complete.
  bool add(text::TokenId token) {
    tokens.push_back(token);
    if (hooks_.on_token) hooks_.on_token(token);
    emit(stops_.push(utf8_.push(tokenizer_.piece(token, false))));
    return stops_.stopped();
  }

  // No more tokens: what was held back is text.
  void finish() {
    if (stops_.stopped()) return;
    emit(stops_.push(utf8_.flush()));
    if (!stops_.stopped()) emit(stops_.flush());
  }

  std::vector<text::TokenId> tokens;
  std::string text;

 private:
  void emit(const std::string& more) {
    if (more.empty()) return;
    text += more;
    if (hooks_.on_text) hooks_.on_text(more);
  }

  const text::Tokenizer& tokenizer_;
  const GenerateHooks& hooks_;
  text::Utf8Stream utf8_;
  text::StopStrings stops_;
};

Generator::Generator(const text::Tokenizer& tokenizer, TokenModel& model, const Clock& clock)
    : tokenizer_(tokenizer), model_(model), clock_(clock) {}

Result<std::vector<float>> Generator::advance(std::span<const text::TokenId> ids, bool want_logits,
                                              const CancelToken* cancel) {
  const auto first = static_cast<int64_t>(context_.size());
  MEADOW_TRY(auto logits, model_.advance(first, ids, want_logits, cancel));
  context_.insert(context_.end(), ids.begin(), ids.end());
  return logits;
}

Result<std::vector<float>> Generator::prefill(std::span<const text::TokenId> prompt, int64_t first,
                                              const GenerateOptions& options,
                                              const GenerateHooks& hooks,
                                              const CancelToken* cancel) {
  const auto total = static_cast<int64_t>(prompt.size());
  std::vector<float> logits;
  for (int64_t at = first; at < total;) {
    const int64_t n = std::min(options.chunk, total - at);
    MEADOW_TRY(logits, advance(prompt.subspan(at, n), at + n == total, cancel));
    at += n;
    if (hooks.on_prompt) hooks.on_prompt(at, total);
  }
  return logits;
}

Result<GenerateResult> Generator::generate(std::span<const text::TokenId> prompt,
                                           const GenerateOptions& options,
                                           const GenerateHooks& hooks, const CancelToken* cancel) {
  MEADOW_TRY_VOID(check_request(prompt, options, model_.max_tokens(), tokenizer_.vocab_size()));
  const TimePoint start = clock_.now();
  // The last prompt token is always computed again: its logits were not kept.
  const auto shared =
      std::mismatch(prompt.begin(), prompt.end() - 1, context_.begin(), context_.end());
  const int64_t reused = std::min<int64_t>(shared.first - prompt.begin(), model_.position());
  context_.resize(reused);

  GenerateResult result;
  result.prompt_tokens = static_cast<int64_t>(prompt.size());
  result.reused_tokens = reused;
  MEADOW_TRY(auto stops, text::StopStrings::create(options.stop));
  Answer answer(tokenizer_, hooks, std::move(stops));
  text::Sampler sampler(options.sampling);
  std::vector<text::TokenId> history(prompt.begin(), prompt.end());
  TimePoint first_at = start, last_at = start;

  auto logits = prefill(prompt, reused, options, hooks, cancel);
  while (true) {
    if (!logits) {
      if (logits.error().code != Code::kCancelled) return fail(logits.error());
      result.reason = StopReason::kCancelled;
      break;
    }
    MEADOW_TRY(const text::TokenId token, sampler.sample(*logits, history));
    last_at = clock_.now();
    if (history.size() == prompt.size()) first_at = last_at;
    if (tokenizer_.is_end(token) && !options.ignore_end) {
      result.reason = StopReason::kEndOfText;
      break;
    }
    history.push_back(token);
    if (answer.add(token)) {
      result.reason = StopReason::kStopString;
      break;
    }
    if (static_cast<int64_t>(answer.tokens.size()) >= options.max_tokens) {
      result.reason = StopReason::kMaxTokens;
      break;
    }
    if (static_cast<int64_t>(context_.size()) >= model_.max_tokens()) {
      result.reason = StopReason::kContextFull;
      break;
    }
    if (cancel && cancel->cancelled()) {
      result.reason = StopReason::kCancelled;
      break;
    }
    logits = advance({&token, 1}, true, cancel);
  }
  answer.finish();
  result.text = std::move(answer.text);
  result.tokens = std::move(answer.tokens);
  if (history.size() > prompt.size() || result.reason == StopReason::kEndOfText)
    result.time_to_first_token = first_at - start;
  result.decode_time = last_at - first_at;
  return result;
}

}  // namespace meadow::client
