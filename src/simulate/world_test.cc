#include "simulate/world.h"

#include <gtest/gtest.h>

namespace meadow::simulate {
namespace {

TEST(SimWorld, RunsEventsInOrderOfTimeThenOfPosting) {
  SimWorld world;
  const TimePoint start = world.now();
  std::string log;
  world.post_after(2ms, [&] { log += 'c'; });
  world.post_after(1ms, [&] { log += 'a'; });
  world.post_after(1ms, [&] {
    log += 'b';
    world.post_after(0ms, [&] { log += '+'; });
  });
  EXPECT_FALSE(world.run_until(start + 10ms));
  EXPECT_EQ(log, "ab+c");
  EXPECT_EQ(world.now(), start + 10ms);
}

TEST(SimWorld, StopsAtThePredicateAndNests) {
  SimWorld world;
  const TimePoint start = world.now();
  int count = 0;
  for (int i = 1; i <= 5; i++) world.post_after(i * 1ms, [&] { count++; });
  EXPECT_TRUE(world.run_for(1s, [&] { return count == 3; }));
  EXPECT_EQ(world.now(), start + 3ms);
  bool inside = false;
  world.post_after(0ms, [&] { inside = world.run_for(1s, [&] { return count == 5; }); });
  EXPECT_FALSE(world.run_for(1ms, [] { return false; }));
  EXPECT_TRUE(inside);
  EXPECT_EQ(world.now(), start + 5ms);  // never backwards
}

TEST(SimWorld, KilledAndFrozenPeers) {
  SimWorld world;
  const Peer a = world.add_peer(), b = world.add_peer(3h);
  world.set_latency(a, b, 20ms);
  EXPECT_EQ(world.clock_of(b).now() - world.clock_of(a).now(), 3h);
  int arrived = 0, killed = 0;
  world.on_kill([&](Peer) { killed++; });
  world.send(a, b, [&] { arrived++; });
  world.run_for(19ms);
  EXPECT_EQ(arrived, 0);
  world.run_for(1ms);
  EXPECT_EQ(arrived, 1);
  world.freeze(b);
  world.send(a, b, [&] { arrived++; });
  world.run_for(1s);
  EXPECT_EQ(arrived, 1);
  world.thaw(b);
  world.run_for(1ms);
  EXPECT_EQ(arrived, 2);
  world.send(a, b, [&] { arrived++; });
  world.kill(b);
  world.kill(b);
  world.send(b, a, [&] { arrived++; });
  world.run_for(1s);
  EXPECT_EQ(arrived, 2);
  EXPECT_EQ(killed, 1);
}

}  // namespace
}  // namespace meadow::simulate
