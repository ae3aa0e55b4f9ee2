#include "base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace meadow {
namespace {

TEST(Rng, SameSeedSameNumbersAndOtherSeedOthers) {
  Rng a(7), b(7), c(8);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; i++) {
    const uint64_t x = a.next();
    EXPECT_EQ(x, b.next());
    EXPECT_NE(x, c.next());
    seen.insert(x);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Rng, UniformAndBelowStayInRangeAndSpread) {
  Rng rng(1);
  double sum = 0;
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; i++) {
    const double u = rng.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    counts[rng.below(7)]++;
  }
  EXPECT_NEAR(sum / 70000, 0.5, 0.01);
  for (int n : counts) EXPECT_NEAR(n, 10000, 500);
}

TEST(Rng, FillCoversOddLengths) {
  Rng rng(3);
  std::array<uint8_t, 13> out{};
  rng.fill(out);
  int nonzero = 0;
  for (uint8_t b : out) nonzero += b != 0;
  EXPECT_GT(nonzero, 8);
}

}  // namespace
}  // namespace meadow
