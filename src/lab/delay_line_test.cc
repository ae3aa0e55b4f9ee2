#include "lab/delay_line.h"

#include <gtest/gtest.h>

namespace meadow::lab {
namespace {

constexpr TimePoint kStart{1s};
const std::vector<uint8_t> kPacket(1000, 7);

LinkShape shape(Duration rtt, Duration jitter = {}, double loss = 0, double rate = 0) {
  return {rtt, jitter, loss, rate};
}

bool push(DelayLine& line, TimePoint now) { return line.push(now, kPacket, kPacket.size()); }

TEST(DelayLine, HalfTheRoundTripEachWay) {
  DelayLine line(shape(40ms), 1, 1 << 20);
  EXPECT_EQ(line.due(), std::nullopt);
  ASSERT_TRUE(push(line, kStart));
  ASSERT_TRUE(push(line, kStart + 3ms));
  EXPECT_EQ(line.due(), kStart + 20ms);
  EXPECT_EQ(line.front().size(), 1000u);
  line.pop();
  EXPECT_EQ(line.due(), kStart + 23ms);
  line.pop();
  EXPECT_EQ(line.due(), std::nullopt);
}

TEST(DelayLine, JitterIsWithinItsBoundsAndKeepsTheOrder) {
  DelayLine line(shape(10ms, 4ms), 5, 1 << 24);
  TimePoint last = kStart;
  Duration least = 1s, most{};
  for (int i = 0; i < 2000; i++) {
    const TimePoint now = kStart + i * 20ms;  // far apart: order costs nothing
    ASSERT_TRUE(push(line, now));
    EXPECT_GE(*line.due(), last);
    last = *line.due();
    least = std::min(least, Duration(last - now));
    most = std::max(most, Duration(last - now));
    line.pop();
  }
  EXPECT_GE(least, 5ms);
  EXPECT_LT(least, 5100us);
  EXPECT_LE(most, 9ms);
  EXPECT_GT(most, 8900us);
  for (int i = 0; i < 100; i++) ASSERT_TRUE(push(line, kStart + 100s));
  for (last = kStart; line.due(); line.pop()) {
    EXPECT_GE(*line.due(), last);
    last = *line.due();
  }
}

TEST(DelayLine, LossIsSeeded) {
  auto fates = [](uint64_t seed) {
    DelayLine line(shape(0ms, 0ms, 0.1), seed, 1 << 30);
    std::vector<bool> out;
    for (int i = 0; i < 20000; i++) out.push_back(push(line, kStart));
    EXPECT_EQ(line.stats().packets, 20000u);
    EXPECT_EQ(line.stats().lost, static_cast<uint64_t>(std::count(out.begin(), out.end(), false)));
    return out;
  };
  const auto first = fates(3);
  EXPECT_EQ(first, fates(3));
  EXPECT_NE(first, fates(4));
  // 2000 expected; five standard deviations are 212.
  EXPECT_NEAR(static_cast<double>(std::count(first.begin(), first.end(), false)), 2000, 212);
}

TEST(DelayLine, PacketsWaitTheirTurnOnASlowWire) {
  DelayLine line(shape(20ms, 0ms, 0, 8e6), 1, 1 << 20);  // 1000 bytes take 1 ms
  for (int i = 0; i < 3; i++) ASSERT_TRUE(push(line, kStart));
  EXPECT_EQ(line.due(), kStart + 11ms);
  line.pop();
  EXPECT_EQ(line.due(), kStart + 12ms);
  line.pop();
  EXPECT_EQ(line.due(), kStart + 13ms);
  // A pause is not saved up.
  ASSERT_TRUE(push(line, kStart + 1s));
  line.pop();
  EXPECT_EQ(line.due(), kStart + 1011ms);
}

TEST(DelayLine, ASlowWireHasAShortQueue) {
  DelayLine line(shape(0ms, 0ms, 0, 8e6), 1, 1 << 30);  // 0.1 s are 100 packets
  int taken = 0;
  for (int i = 0; i < 1000; i++) taken += push(line, kStart);
  EXPECT_EQ(taken, 101);
  EXPECT_EQ(line.stats().dropped, 899u);
  EXPECT_TRUE(push(line, kStart + 50ms));
}

TEST(DelayLine, HoldsNoMoreThanItMay) {
  DelayLine line(shape(10ms), 1, 2500);
  EXPECT_TRUE(push(line, kStart));
  EXPECT_TRUE(push(line, kStart));
  EXPECT_FALSE(push(line, kStart));
  EXPECT_EQ(line.stats().dropped, 1u);
  line.pop();
  EXPECT_TRUE(push(line, kStart));
}

TEST(DelayLine, ANewShapeIsForNewPackets) {
  DelayLine line(shape(80ms), 1, 1 << 20);
  ASSERT_TRUE(push(line, kStart));
  line.reshape(shape(10ms));
  ASSERT_TRUE(push(line, kStart));
  EXPECT_EQ(line.due(), kStart + 40ms);
  line.pop();
  // Order is kept, so it comes with the one before it; the next one is as quick as the new shape.
  EXPECT_EQ(line.due(), kStart + 40ms);
  line.pop();
  ASSERT_TRUE(push(line, kStart + 50ms));
  EXPECT_EQ(line.due(), kStart + 55ms);
}

}  // namespace
}  // namespace meadow::lab
