#include "simulate/plot.h"

#include <gtest/gtest.h>

#include <cmath>

namespace meadow::simulate {
namespace {

Plot sample() {
  Plot plot;
  plot.title = "a < b & c";
  plot.x_label = "hours";
  plot.y_label = "tokens/s";
  plot.series = {{"one", {0, 1, 2}, {0, 10, 5}}, {"two", {0, 1, 2}, {3, std::nan(""), 4}}};
  return plot;
}

TEST(Plot, IsTheSameEveryTimeAndEscapesText) {
  const std::string text = svg(sample());
  EXPECT_EQ(text, svg(sample()));
  EXPECT_NE(text.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("<svg"), 0u);
  EXPECT_NE(text.find("</svg>"), std::string::npos);
}

// The line's ends lie on the frame: x = 0 at its left edge, the greatest x at its right.
TEST(Plot, PointsLieWhereTheAxesSay) {
  const std::string text = svg(sample());
  EXPECT_NE(text.find("points='72.0,336.0"), std::string::npos) << text;
  EXPECT_NE(text.find("740.0,"), std::string::npos);
}

TEST(Plot, EmptyAndConstantDataAreDrawn) {
  Plot plot;
  EXPECT_NE(svg(plot).find("</svg>"), std::string::npos);
  plot.log_x = plot.log_y = true;
  plot.series = {{"flat", {10, 100, 1000}, {1, 1, 1}}, {"not drawn", {-1, 0}, {1, 1}}};
  EXPECT_EQ(svg(plot).find("nan"), std::string::npos);
  EXPECT_EQ(svg(plot).find("inf"), std::string::npos);
}

TEST(Plot, ThinnedIsTheMeanOfStretches) {
  const Series thin = thinned({"s", {1, 2, 3, 4}, {1, 3, 5, 9}}, 2);
  EXPECT_EQ(thin.x, (std::vector<double>{1.5, 3.5}));
  EXPECT_EQ(thin.y, (std::vector<double>{2, 7}));
  EXPECT_EQ(thinned(thin, 5).x.size(), 2u);
}

}  // namespace
}  // namespace meadow::simulate
