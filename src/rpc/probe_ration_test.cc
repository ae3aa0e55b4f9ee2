#include "rpc/probe_ration.h"

#include <gtest/gtest.h>

namespace meadow::rpc {
namespace {

PeerId peer(int n) {
  PeerId id;
  id.bytes[0] = static_cast<uint8_t>(n);
  return id;
}

TEST(ProbeRation, OnceInAWhileForEachAndSomeAMinuteForAll) {
  ProbeRation ration;
  const TimePoint start{1h};
  EXPECT_TRUE(ration.take(peer(0), start));
  EXPECT_FALSE(ration.take(peer(0), start + kProbePause - 1ns));
  EXPECT_TRUE(ration.take(peer(0), start + kProbePause));
  int taken = 0;
  for (int i = 1; i < 200; i++) taken += ration.take(peer(i), start + 20s);
  EXPECT_EQ(taken, kProbesPerMinute - 2);
  EXPECT_TRUE(ration.take(peer(200), start + 61s));
}

}  // namespace
}  // namespace meadow::rpc
