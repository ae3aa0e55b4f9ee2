#include "simulate/traffic.h"

#include <gtest/gtest.h>

namespace meadow::simulate {
namespace {

TEST(Traffic, IsCountedAndNewsArrives) {
  TrafficOptions options;
  options.servers = 12;
  options.minutes = 1;
  const TrafficReport a = measure_traffic(options), b = measure_traffic(options);
  EXPECT_EQ(a.bytes_per_peer_minute, b.bytes_per_peer_minute);
  EXPECT_TRUE(a.complete);
  EXPECT_LT(a.known_seconds, 15);
  EXPECT_LT(a.gone_seconds, 45);  // the lease's time and a little
  EXPECT_GT(a.bytes_per_peer_minute, 1e3);
  EXPECT_LT(a.bytes_per_peer_minute, 10e3 * 60);
}

}  // namespace
}  // namespace meadow::simulate
