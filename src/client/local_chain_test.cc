#include "client/local_chain.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "client/generator.h"
#include "client/token_model.h"
#include "format/test_model.h"

namespace meadow::client {
namespace {

class LocalChainTest : public testing::Test {
 protected:
  LocalChainTest() {
    const format::TestModelOptions options{.n_blocks = 3, .n_ctx = 128};
    file_ = format::ModelFile::open(
                std::make_shared<format::MemorySource>(format::test_model_bytes(options)))
                .value();
    ends_ = engine::ModelEnds::load(file_, 1).value();
    n_vocab_ = static_cast<int32_t>(ends_->hyperparameters().n_vocab);
    Rng rng(7);
    for (int i = 0; i < 40; i++) ids_.push_back(static_cast<int32_t>(rng.below(n_vocab_)));
  }
  std::unique_ptr<LocalChain> chain(int64_t max_tokens = 100, int threads = 1) {
    return LocalChain::load(file_, threads, DType::kF16, max_tokens).value();
  }
  std::vector<float> embed(int first, int n) {
    return ends_->embed(std::span(ids_).subspan(first, n)).value();
  }

  std::shared_ptr<format::ModelFile> file_;
  std::unique_ptr<engine::ModelEnds> ends_;
  int32_t n_vocab_ = 0;
  std::vector<int32_t> ids_;
};

TEST_F(LocalChainTest, ReturnsThePositionsAskedFor) {
  auto one = chain(), other = chain();
  const auto all = one->step(0, embed(0, 20), 0, nullptr).value();
  const auto some = other->step(0, embed(0, 20), 17, nullptr).value();
  EXPECT_EQ(one->position(), 20);
  ASSERT_EQ(some.size() * 20, all.size() * 3);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.end() - some.size()));
}

TEST_F(LocalChainTest, RollbackGivesTheSameBits) {
  auto straight = chain(), back = chain(100, 2);
  const auto expected = straight->step(0, embed(0, 30), 29, nullptr).value();
  ASSERT_TRUE(back->step(0, embed(0, 10), 9, nullptr));
  ASSERT_TRUE(back->step(10, embed(25, 15), 24, nullptr));  // something else
  const auto got = back->step(10, embed(10, 20), 29, nullptr).value();
  EXPECT_EQ(back->position(), 30);
  EXPECT_EQ(got, expected);
}

TEST_F(LocalChainTest, RefusesAGapAndMoreThanItHolds) {
  auto small = chain(16);
  EXPECT_EQ(small->max_tokens(), 16);
  ASSERT_TRUE(small->step(0, embed(0, 10), 9, nullptr));
  EXPECT_FALSE(small->step(11, embed(0, 1), 11, nullptr));
  EXPECT_FALSE(small->step(10, embed(10, 7), 16, nullptr));
  EXPECT_TRUE(small->step(10, embed(10, 6), 15, nullptr));
}

TEST_F(LocalChainTest, MoreContextThanTheModelHasIsRefused) {
  EXPECT_FALSE(LocalChain::load(file_, 1, DType::kF16, 129));
}

TEST_F(LocalChainTest, ModelGivesTheSameLogitsHoweverThePromptIsCut) {
  auto one = chain(), other = chain();
  ChainModel whole(*ends_, *one), pieces(*ends_, *other);
  const auto expected = whole.advance(0, ids_, true, nullptr).value();
  EXPECT_EQ(expected.size(), static_cast<size_t>(n_vocab_));
  for (int at = 0; at < 39; at += 13)
    EXPECT_TRUE(pieces.advance(at, std::span(ids_).subspan(at, 13), false, nullptr)->empty());
  EXPECT_EQ(pieces.advance(39, std::span(ids_).subspan(39), true, nullptr).value(), expected);
}

TEST_F(LocalChainTest, AChatAnswersAsIfItWereNew) {
  const auto tokenizer = text::Tokenizer::from(file_->metadata()).value();
  const SystemClock clock;
  auto one = chain(), other = chain();
  ChainModel kept_model(*ends_, *one), fresh_model(*ends_, *other);
  Generator kept(*tokenizer, kept_model, clock), fresh(*tokenizer, fresh_model, clock);
  GenerateOptions options;
  options.max_tokens = 12;
  options.ignore_end = true;
  options.chunk = 7;
  const auto first = kept.generate(std::span(ids_).first(20), options, {}, nullptr).value();
  std::vector<int32_t> longer(ids_.begin(), ids_.begin() + 20);
  longer.insert(longer.end(), first.tokens.begin(), first.tokens.begin() + 5);
  longer.insert(longer.end(), ids_.begin() + 20, ids_.end());
  const auto second = kept.generate(longer, options, {}, nullptr).value();
  EXPECT_GE(second.reused_tokens, 25);
  EXPECT_EQ(second.tokens, fresh.generate(longer, options, {}, nullptr).value().tokens);
}

}  // namespace
}  // namespace meadow::client
