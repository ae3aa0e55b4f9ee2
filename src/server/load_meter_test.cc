#include "server/load_meter.h"

#include <gtest/gtest.h>

namespace meadow::server {
namespace {

TEST(LoadMeter, QueuesAreAverages) {
  LoadMeter meter({});
  swarm::SpanServiceStats stats;
  stats.queued_tokens = 256;
  meter.sample(stats);
  EXPECT_EQ(meter.queued_tokens(), 64u);
  for (int i = 0; i < 30; i++) meter.sample(stats);
  EXPECT_EQ(meter.queued_tokens(), 256u);
  stats.queued_tokens = 0;
  for (int i = 0; i < 30; i++) meter.sample(stats);
  EXPECT_EQ(meter.queued_tokens(), 0u);
}

TEST(LoadMeter, SpeedsFollowTheWorkDone) {
  LoadMeter meter({.decode = 1000, .prefill = 0, .forward = 500});
  swarm::SpanServiceStats stats;
  meter.sample(stats);
  EXPECT_EQ(meter.speed().decode, 1000);
  stats.decoded = {.block_tokens = 10, .compute_us = LoadMeter::kEnoughUs - 1};
  meter.sample(stats);  // too little to say anything
  EXPECT_EQ(meter.speed().decode, 1000);
  for (int i = 0; i < 40; i++) {
    stats.decoded.block_tokens += 100;  // 200 a second: something else runs on this machine
    stats.decoded.compute_us += 500000;
    meter.sample(stats);
  }
  EXPECT_NEAR(meter.speed().decode, 200, 1);
  stats.prompted = {.block_tokens = 4000, .compute_us = 1000000};
  meter.sample(stats);
  EXPECT_EQ(meter.speed().prefill, 4000);
  EXPECT_EQ(meter.speed().forward, 500);
}

}  // namespace
}  // namespace meadow::server
