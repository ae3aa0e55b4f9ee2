#include "client/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace meadow::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using text::TokenId;

// Ids 0 to 25 are a to z, then these.
constexpr TokenId kSpace = 26, kByteC3 = 27, kByteA9 = 28, kEnd = 29;
constexpr int kVocab = 30;

std::shared_ptr<const text::Tokenizer> letters() {
  static std::vector<std::string> names;
  names.clear();
  for (char c = 'a'; c <= 'z'; c++) names.push_back(std::string(1, c));
  names.insert(names.end(), {"Ġ", "Ã", "©", "<end>"});
  text::VocabData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (const std::string& n : names) data.tokens.push_back(n);
  data.types.assign(kVocab, 1);
  data.types[kEnd] = 3;
  data.eos = kEnd;
  auto tokenizer = text::Tokenizer::from(data);
  EXPECT_TRUE(tokenizer) << tokenizer.error().text();
  return tokenizer ? *tokenizer : nullptr;
}

std::vector<TokenId> ids(std::string_view text) {
  std::vector<TokenId> out;
  for (char c : text) out.push_back(c == ' ' ? kSpace : c - 'a');
  return out;
}

// Says what a script says: next token as a function of the sequence so far. Keeps the sequence, so
// that a wrong position or a forgotten token changes the answer.
class FakeModel final : public TokenModel {
 public:
  using Next = std::function<TokenId(const std::vector<TokenId>&)>;
  struct Call {
    int64_t first, count;
    bool operator==(const Call&) const = default;
  };

  FakeModel(int64_t max_tokens, Next next) : max_tokens_(max_tokens), next_(std::move(next)) {}

  Result<std::vector<float>> advance(int64_t first_position, std::span<const int32_t> more,
                                     bool want_logits, const CancelToken* cancel) override {
    EXPECT_LE(first_position, position());
    EXPECT_FALSE(more.empty());
    EXPECT_LE(first_position + static_cast<int64_t>(more.size()), max_tokens_);
    calls.push_back({first_position, static_cast<int64_t>(more.size())});
    clock.advance(10ms);
    if (cancel && cancel->cancelled()) return fail(Code::kCancelled, "cancelled");
    if (fail_next) {
      fail_next = false;
      return fail(Code::kUnavailable, "nobody there");
    }
    sequence.resize(first_position);
    sequence.insert(sequence.end(), more.begin(), more.end());
    if (!want_logits) return std::vector<float>{};
    std::vector<float> logits(kVocab, 0.0f);
    logits[next_(sequence)] = 5.0f;
    return logits;
  }
  int64_t position() const override { return static_cast<int64_t>(sequence.size()); }
  int64_t max_tokens() const override { return max_tokens_; }

  std::vector<TokenId> sequence;
  std::vector<Call> calls;
  bool fail_next = false;
  ManualClock clock;

 private:
  int64_t max_tokens_;
  Next next_;
};

// After the prompt says `answer`, again and again, whatever came before.
FakeModel::Next says(std::vector<TokenId> answer, size_t prompt) {
  return [=](const std::vector<TokenId>& sequence) {
    return answer[(sequence.size() - prompt) % answer.size()];
  };
}
// The letter after the last one; after z the end.
TokenId successor(const std::vector<TokenId>& sequence) {
  return sequence.back() >= 25 ? kEnd : sequence.back() + 1;
}

class GeneratorTest : public testing::Test {
 protected:
  Result<GenerateResult> generate(Generator& generator, std::string_view prompt,
                                  const CancelToken* cancel = nullptr) {
    streamed.clear();
    GenerateHooks hooks = hooks_;
    hooks.on_text = [&](std::string_view text) { streamed += text; };
    return generator.generate(ids(prompt), options, hooks, cancel);
  }

  std::shared_ptr<const text::Tokenizer> tokenizer = letters();
  GenerateOptions options;
  GenerateHooks hooks_;
  std::string streamed;
};

TEST_F(GeneratorTest, AnswersUntilTheModelEnds) {
  FakeModel model(100, successor);
  Generator generator(*tokenizer, model, model.clock);
  const auto result = generate(generator, "tuv");
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->text, "wxyz");
  EXPECT_EQ(streamed, "wxyz");
  EXPECT_EQ(result->tokens, ids("wxyz"));
  EXPECT_EQ(result->reason, StopReason::kEndOfText);
  EXPECT_EQ(result->prompt_tokens, 3);
  EXPECT_EQ(result->reused_tokens, 0);
}

TEST_F(GeneratorTest, CountsTime) {
  FakeModel model(100, successor);
  Generator generator(*tokenizer, model, model.clock);
  options.max_tokens = 5;
  const auto result = generate(generator, "a");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->time_to_first_token, 10ms);
  EXPECT_EQ(result->decode_time, 40ms);
  EXPECT_DOUBLE_EQ(result->tokens_per_s(), 100);
}

TEST_F(GeneratorTest, StopStringEndsAndIsNoPartOfTheAnswer) {
  FakeModel model(100, successor);
  Generator generator(*tokenizer, model, model.clock);
  options.stop = {"fgh"};
  const auto result = generate(generator, "c");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->text, "de");
  EXPECT_EQ(streamed, "de");
  EXPECT_EQ(result->reason, StopReason::kStopString);
}

TEST_F(GeneratorTest, HeldBackTextComesAtTheEnd) {
  FakeModel model(100, successor);
  Generator generator(*tokenizer, model, model.clock);
  options.stop = {"xyzz"};
  const auto result = generate(generator, "v");
  ASSERT_TRUE(result);
  EXPECT_EQ(streamed, "wxyz");
  EXPECT_EQ(result->reason, StopReason::kEndOfText);
}

TEST_F(GeneratorTest, MaxTokensAndContextBoundTheAnswer) {
  FakeModel model(6, says({0}, 4));
  Generator generator(*tokenizer, model, model.clock);
  options.max_tokens = 2;
  auto result = generate(generator, "bcde");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->text, "aa");
  EXPECT_EQ(result->reason, StopReason::kMaxTokens);

  options.max_tokens = 50;
  result = generate(generator, "bcde");
  ASSERT_TRUE(result);
  // Positions 4 and 5 take two tokens; the third is known but has no place.
  EXPECT_EQ(result->text, "aaa");
  EXPECT_EQ(result->reason, StopReason::kContextFull);
}

TEST_F(GeneratorTest, RefusesWhatCannotWorkBeforeAnyWork) {
  FakeModel model(4, successor);
  Generator generator(*tokenizer, model, model.clock);
  auto refused = generate(generator, "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  refused = generate(generator, "abcdefg");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("7 tokens"));
  EXPECT_THAT(refused.error().message, HasSubstr("holds 4"));
  EXPECT_EQ(generator.generate(std::vector<TokenId>{kVocab}, options, {}, nullptr).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(generator.generate(std::vector<TokenId>{-1}, options, {}, nullptr).error().code,
            Code::kInvalidArgument);
  options.stop = {""};
  EXPECT_FALSE(generate(generator, "a"));
  options.stop.clear();
  options.max_tokens = 0;
  EXPECT_FALSE(generate(generator, "a"));
  options.max_tokens = 1;
  options.sampling.temperature = -1;
  EXPECT_FALSE(generate(generator, "a"));
  EXPECT_TRUE(model.calls.empty());
}

TEST_F(GeneratorTest, ReusesTheSharedPrefix) {
  FakeModel model(100, says(ids("xy"), 3));
  Generator generator(*tokenizer, model, model.clock);
  options.max_tokens = 3;
  ASSERT_TRUE(generate(generator, "abc"));
  EXPECT_EQ(generator.context().size(), 5u);  // the third token was not fed
  model.calls.clear();
  // The whole conversation and two more: only what is not there yet is computed.
  auto result = generate(generator, "abcxyxde");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->reused_tokens, 5);
  EXPECT_EQ(model.calls[0], (FakeModel::Call{5, 3}));
  // Another end: rolled back to where they part.
  model.calls.clear();
  result = generate(generator, "abcxq");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->reused_tokens, 4);
  EXPECT_EQ(model.calls[0], (FakeModel::Call{4, 1}));
  // The same again: its last token is computed for its logits.
  model.calls.clear();
  result = generate(generator, "abcxq");
  ASSERT_TRUE(result);
  EXPECT_EQ(model.calls[0], (FakeModel::Call{4, 1}));
  // Forgotten: all is computed.
  generator.reset();
  model.calls.clear();
  ASSERT_TRUE(generate(generator, "abcxq"));
  EXPECT_EQ(model.calls[0], (FakeModel::Call{0, 5}));
}

TEST_F(GeneratorTest, SameTextWithAndWithoutReuse) {
  FakeModel model(100, successor);
  Generator warm(*tokenizer, model, model.clock);
  options.max_tokens = 4;
  ASSERT_TRUE(generate(warm, "abc"));
  const auto reused = generate(warm, "abcdxm");
  FakeModel other(100, successor);
  Generator cold(*tokenizer, other, other.clock);
  const auto fresh = generate(cold, "abcdxm");
  ASSERT_TRUE(reused && fresh);
  EXPECT_EQ(reused->text, fresh->text);
  EXPECT_EQ(model.sequence, other.sequence);
}

TEST_F(GeneratorTest, PromptGoesInChunks) {
  FakeModel model(100, successor);
  Generator generator(*tokenizer, model, model.clock);
  options.chunk = 3;
  options.max_tokens = 1;
  std::vector<int64_t> progress;
  hooks_.on_prompt = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 7);
    progress.push_back(done);
  };
  const auto result = generate(generator, "abcdefg");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->text, "h");
  EXPECT_THAT(progress, ElementsAre(3, 6, 7));
  EXPECT_THAT(model.calls,
              ElementsAre(FakeModel::Call{0, 3}, FakeModel::Call{3, 3}, FakeModel::Call{6, 1}));
}

TEST_F(GeneratorTest, CancelStopsTheAnswerAndNotTheObject) {
  FakeModel model(100, successor);
  Generator generator(*tokenizer, model, model.clock);
  CancelToken cancel;
  hooks_.on_token = [&](TokenId token) {
    if (token == 'd' - 'a') cancel.cancel();
  };
  auto result = generate(generator, "b", &cancel);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->reason, StopReason::kCancelled);
  EXPECT_EQ(result->text, "cd");
  // In the prompt: nothing is said, and it is no error.
  result = generate(generator, "bxx", &cancel);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->reason, StopReason::kCancelled);
  EXPECT_EQ(result->text, "");
  cancel.reset();
  hooks_.on_token = nullptr;
  result = generate(generator, "bcdw", &cancel);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->text, "xyz");
}

TEST_F(GeneratorTest, AnErrorLeavesItUsable) {
  FakeModel model(100, successor);
  Generator generator(*tokenizer, model, model.clock);
  ASSERT_TRUE(generate(generator, "wx"));
  model.fail_next = true;
  const auto failed = generate(generator, "wxa");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnavailable);
  const auto result = generate(generator, "wxay");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->text, "z");
}

TEST_F(GeneratorTest, StreamsWholeCodePoints) {
  FakeModel model(100, says({kByteC3, kByteA9, kEnd}, 1));
  Generator generator(*tokenizer, model, model.clock);
  std::vector<std::string> pieces;
  GenerateHooks hooks;
  hooks.on_text = [&](std::string_view text) { pieces.emplace_back(text); };
  const auto result = generator.generate(ids("a"), options, hooks, nullptr);
  ASSERT_TRUE(result);
  EXPECT_THAT(pieces, ElementsAre("é"));
}

TEST_F(GeneratorTest, SeedDecidesASampledAnswer) {
  options.sampling.temperature = 3;
  options.max_tokens = 30;
  auto once = [&](uint64_t seed) {
    FakeModel model(100, successor);
    Generator generator(*tokenizer, model, model.clock);
    options.sampling.seed = seed;
    options.ignore_end = true;
    return generate(generator, "a").value().tokens;
  };
  EXPECT_EQ(once(1), once(1));
  EXPECT_NE(once(1), once(2));
}

}  // namespace
}  // namespace meadow::client
