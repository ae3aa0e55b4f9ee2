#include "text/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "text/exp.h"

namespace meadow::text {
namespace {

std::vector<float> random_logits(size_t n, Rng& rng) {
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(rng.uniform() * 20 - 10);
  return out;
}

std::vector<double> shares(SamplingOptions options, const std::vector<float>& logits,
                           const std::vector<TokenId>& history = {}, int draws = 20000) {
  Sampler sampler(options);
  std::vector<double> out(logits.size());
  for (int i = 0; i < draws; i++)
    out[static_cast<size_t>(sampler.sample(logits, history).value())] += 1.0 / draws;
  return out;
}

TEST(Exp, AgreesWithTheLibrary) {
  Rng rng(1);
  for (int i = 0; i < 100000; i++) {
    const double x = -rng.uniform() * (i % 2 ? 700 : 2);
    const double expected = std::exp(x);
    EXPECT_NEAR(exp_of(x), expected, expected * 4.5e-16) << x;
  }
  EXPECT_EQ(exp_of(0.0), 1.0);
  EXPECT_EQ(exp_of(-1e300), 0.0);
  EXPECT_EQ(exp_of(-std::numeric_limits<double>::infinity()), 0.0);
}

TEST(Sampler, GreedyTakesTheBestAndOfEqualsTheLowestId) {
  Sampler sampler({});
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 2, 3}, {}).value(), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{-1}, {}).value(), 0);
}

TEST(Sampler, RepetitionPenaltyCountsATokenOnce) {
  Sampler sampler({.repetition_penalty = 2});
  const std::vector<TokenId> history = {1, 1, 1, -5, 99};
  EXPECT_EQ(sampler.sample(std::vector<float>{2, 3, 0}, history).value(), 0);     // 3 / 2 < 2
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 0}, history).value(), 1);     // 3 / 2 > 1
  EXPECT_EQ(sampler.sample(std::vector<float>{-3, -2, -9}, history).value(), 0);  // -2 * 2 < -3
}

TEST(Sampler, DrawsByTheSoftmaxAtTheTemperature) {
  const std::vector<float> logits = {0, 1, 2};
  const auto at = shares({.temperature = 2}, logits);
  const double total = 1 + std::exp(0.5) + std::exp(1.0);
  EXPECT_NEAR(at[0], 1 / total, 0.015);
  EXPECT_NEAR(at[1], std::exp(0.5) / total, 0.015);
  EXPECT_NEAR(at[2], std::exp(1.0) / total, 0.015);
}

TEST(Sampler, TruncatesTheTail) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.3f),
                                     std::log(0.2f)};
  const auto kept = [&](SamplingOptions o) {
    o.temperature = 1;
    std::vector<TokenId> out;
    const auto at = shares(o, logits, {}, 3000);
    for (size_t i = 0; i < at.size(); i++)
      if (at[i] > 0) out.push_back(static_cast<TokenId>(i));
    return out;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(kept({}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(kept({.top_k = 2}), (Ids{1, 2}));
  EXPECT_EQ(kept({.top_k = 1}), (Ids{1}));
  EXPECT_EQ(kept({.top_p = 0.75f}), (Ids{1, 2, 3}));
  EXPECT_EQ(kept({.top_p = 0.65f}), (Ids{1, 2}));
  EXPECT_EQ(kept({.top_p = 1e-9f}), (Ids{1}));
  EXPECT_EQ(kept({.min_p = 0.6f}), (Ids{1, 2}));
  EXPECT_EQ(kept({.min_p = 1}), (Ids{1}));
  EXPECT_EQ(kept({.top_k = 3, .top_p = 0.5f}), (Ids{1, 2}));  // 0.4 of 0.9 is not half
}

TEST(Sampler, TopKTakesTheLowestIdsOfEquals) {
  const auto at = shares({.temperature = 1, .top_k = 2}, {5, 5, 5, 5}, {}, 2000);
  EXPECT_GT(at[0], 0.4);
  EXPECT_GT(at[1], 0.4);
}

// The ids of these draws are the same on every processor and in every build.
TEST(Sampler, IsReproducible) {
  Rng rng(99);
  Sampler sampler({.temperature = 0.9f,
                   .top_k = 200,
                   .top_p = 0.95f,
                   .min_p = 0.001f,
                   .repetition_penalty = 1.1f,
                   .seed = 7});
  Sampler plain({.temperature = 1.3f, .seed = 8});
  std::vector<TokenId> history;
  Sha256 digest;
  for (int step = 0; step < 200; step++) {
    const std::vector<float> logits = random_logits(2000, rng);
    const TokenId id = sampler.sample(logits, history).value();
    history.push_back(id);
    digest.update_u64(static_cast<uint64_t>(id));
    digest.update_u64(static_cast<uint64_t>(plain.sample(logits, {}).value()));
  }
  EXPECT_EQ(hex(digest.finish(), 8), "06f74a583ecc90b3");
}

TEST(Sampler, BadLogitsAreAnError) {
  Sampler sampler({});
  EXPECT_EQ(sampler.sample({}, {}).error().code, Code::kInvalidArgument);
  for (const float bad : {std::numeric_limits<float>::infinity(), -HUGE_VALF, NAN})
    EXPECT_EQ(sampler.sample(std::vector<float>{0, bad}, {}).error().code, Code::kInvalidArgument);
}

TEST(Sampler, BadOptionsAreRefusedByName) {
  const auto refused = [](SamplingOptions options, std::string_view option) {
    const auto result = check(options);
    ASSERT_FALSE(result) << option;
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(result.error().message.starts_with(option)) << result.error().message;
    EXPECT_FALSE(Sampler(options).sample(std::vector<float>{1}, {}));
  };
  refused({.temperature = -1}, "temperature");
  refused({.temperature = NAN}, "temperature");
  refused({.top_k = -1}, "top-k");
  refused({.top_p = 0}, "top-p");
  refused({.top_p = 1.5f}, "top-p");
  refused({.min_p = -0.1f}, "min-p");
  refused({.repetition_penalty = 0}, "repetition-penalty");
  EXPECT_TRUE(check(SamplingOptions{}));
}

}  // namespace
}  // namespace meadow::text
