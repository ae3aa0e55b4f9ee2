#include "meadow/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace meadow::apps {
namespace {

TEST(Perplexity, WindowsBeginAnewWithBosAndDropTheRest) {
  std::vector<text::TokenId> ids(11);
  std::iota(ids.begin(), ids.end(), 100);
  const auto windows = windows_of(ids, 4, 7, 0);
  ASSERT_TRUE(windows);
  EXPECT_EQ(*windows,
            (std::vector<std::vector<text::TokenId>>{{7, 101, 102, 103}, {7, 105, 106, 107}}));
  EXPECT_EQ(windows_of(ids, 4, text::kNoToken, 0)->front().front(), 100);
  EXPECT_EQ(windows_of(ids, 4, 7, 1)->size(), 1u);
}

TEST(Perplexity, ATextShorterThanOneWindowIsAnError) {
  const std::vector<text::TokenId> ids(3);
  EXPECT_EQ(windows_of(ids, 4, 7, 0).error().code, Code::kInvalidArgument);
}

TEST(Perplexity, ScoresTheSecondHalf) {
  EXPECT_EQ(first_scored(512), 256);
  EXPECT_EQ(scored_per_window(512), 255);
  EXPECT_EQ(scored_per_window(2), 0);
  EXPECT_EQ(scored_per_window(9), 4);  // 4, 5, 6 and 7 tell of 5 to 8
}

TEST(Perplexity, SurpriseIsOfTheSoftmaxAndDoesNotOverflow) {
  EXPECT_NEAR(surprise(std::vector<float>{1, 1, 1, 1}, 2), std::log(4.0), 1e-12);
  EXPECT_NEAR(surprise(std::vector<float>{0, std::log(3.0f)}, 1), std::log(4.0 / 3), 1e-7);
  EXPECT_NEAR(surprise(std::vector<float>{1e30f, 0}, 0), 0, 1e-12);
  EXPECT_NEAR(surprise(std::vector<float>{-2000, -2001}, 1), 1 + std::log1p(std::exp(-1.0)), 1e-9);
}

TEST(Perplexity, MeanAndStandardError) {
  Perplexity p;
  EXPECT_EQ(p.error(), 0);
  for (const double s : {1.0, 2.0, 3.0, 4.0}) p.add(s);
  EXPECT_EQ(p.tokens(), 4);
  EXPECT_NEAR(p.perplexity(), std::exp(2.5), 1e-12);
  EXPECT_NEAR(p.error(), std::sqrt(1.25 / 3) * std::exp(2.5), 1e-12);
}

}  // namespace
}  // namespace meadow::apps
