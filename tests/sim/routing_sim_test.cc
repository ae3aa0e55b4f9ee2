// Which servers a running swarm's clients choose when some of them fail: nobody is asked twice who
// has a substitute, nobody is banned who has none. In virtual time.
#include <gtest/gtest.h>

#include "sim/failure_run.h"
#include "sim/session_world.h"
#include "sim/sim_members.h"

namespace meadow::sim {
namespace {

constexpr int64_t kPrompt = 5, kTotal = 13;

// The only holder of some blocks loses its streams (it restarts): whoever failed is left out
// elsewhere for 15 s here, but nobody else can take its place, so it is asked again at once.
TEST(RoutingSim, TheOnlyHolderIsAskedAgainAtOnce) {
  World world(12, 4);
  for (int32_t first : {0, 4, 8}) world.add_server({first, first + 4});
  InferenceSession session(world.session_options(kTotal), world, world.directory, world,
                           world.loop.clock(), world.rng);
  ASSERT_TRUE(session.open(nullptr));
  std::vector<float> out;
  for (int64_t p = 0; p < kTotal; p++) {
    if (p == 6) world.reset(*world.servers[1]);
    const TimePoint began = world.loop.now();
    const auto next = session.step(p, world.inputs(p, 1), p, nullptr);
    ASSERT_TRUE(next) << next.error().text();
    EXPECT_LT(seconds(world.loop.now() - began), 0.2);
    out.insert(out.end(), next->begin(), next->end());
  }
  EXPECT_EQ(out, world.reference(kTotal, 0));
  ASSERT_EQ(session.stats().failovers.size(), 1u);
  EXPECT_EQ(session.stats().replayed_tokens, 6);
}

// With a redundant server known the next route is without the one that failed, at once and for
// good.
TEST(RoutingSim, ARedundantServerTakesOverAtOnce) {
  DoubledSwarm s(kTotal);
  ASSERT_TRUE(s.session->open(nullptr));
  ASSERT_TRUE(s.session->step(0, s.world.inputs(0, kPrompt), 0, nullptr));
  const PeerId failed = s.in_use(1).id;
  s.world.reset(s.in_use(1));
  const TimePoint began = s.world.loop.now();
  for (int64_t p = kPrompt; p < kTotal; p++) {
    ASSERT_TRUE(s.session->step(p, s.world.inputs(p, 1), p, nullptr));
    for (const Hop& hop : s.session->chain()) EXPECT_NE(hop.server.id, failed);
    if (p > kPrompt) continue;
    EXPECT_LT(milliseconds(s.world.loop.now() - began), 150);
  }
}

TEST(RoutingSim, ListsOfServersHoldInFailoversToo) {
  DoubledSwarm s(kTotal);
  auto options = s.world.session_options(kTotal);
  options.give_up_after = 5s;
  options.filter = PeerFilter::from({}, {hex(s.world.servers[1]->id, 4)}).value();
  s.session = std::make_unique<InferenceSession>(options, s.world, s.world.directory, s.world,
                                                 s.world.loop.clock(), s.world.rng);
  ASSERT_TRUE(s.session->open(nullptr));
  EXPECT_EQ(s.in_use(1).id, s.world.servers[4]->id);
  ASSERT_TRUE(s.session->step(0, s.world.inputs(0, kPrompt), 0, nullptr));
  s.world.kill(*s.world.servers[4]);
  const auto next = s.session->step(kPrompt, s.world.inputs(kPrompt, 1), kPrompt, nullptr);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, Code::kUnavailable);
  EXPECT_NE(next.error().message.find("not among the allowed servers"), std::string::npos)
      << next.error().text();
  EXPECT_EQ(s.world.servers[1]->service->stats().sessions_total, 0);
}

TEST(RoutingSim, TheOnlyHolderOfABlockIsNeverBannedOutright) {
  SimSwarm swarm;
  swarm.bootstrap();
  Node& whole = swarm.server(1, {"boot:1"});
  Node& part = swarm.server(2, {"boot:1"}, {0, kSimBlocks - 1});
  Node& client = swarm.client({"boot:1"});
  ASSERT_TRUE(swarm.world.run_for(3s, [&] { return client.sees(whole) && client.sees(part); }));
  client.members.report_failure(part.identity.id(), Error{});
  client.members.report_failure(whole.identity.id(), Error{});
  ASSERT_FALSE(client.sees(part) && !client.sees(whole));
  const auto left_out = [&](const Node& node) {
    for (const auto& info : client.members.online())
      if (info.peer.id == node.identity.id()) return info.left_out;
    return false;
  };
  EXPECT_TRUE(left_out(whole));  // alone with the last block
  client.members.report_success(part.identity.id());
  EXPECT_TRUE(client.sees(part));
  EXPECT_FALSE(left_out(part));
  EXPECT_TRUE(left_out(whole));
}

// A faster server appears: a session that may move goes there where that pays, and what it answers
// does not change.
TEST(Moves, ToABetterChainWhereItPays) {
  const auto run = [](Duration every, int64_t tokens, int64_t appears) {
    World world(12, 4);
    for (int32_t first : {0, 4, 8}) world.add_server({first, first + 4}).task_time = 20ms;
    auto options = world.session_options(tokens);
    options.move_every = every;
    InferenceSession session(options, world, world.directory, world, world.loop.clock(), world.rng);
    EXPECT_TRUE(session.open(nullptr));
    std::vector<float> out;
    for (int64_t p = 0; p < tokens; p++) {
      if (p == appears) world.add_server({2, 12}, 100000, 100000);
      const auto next = session.step(p, world.inputs(p, 1), p, nullptr);
      EXPECT_TRUE(next) << next.error().text();
      if (next) out.insert(out.end(), next->begin(), next->end());
    }
    EXPECT_EQ(out, world.reference(tokens, 0));
    EXPECT_TRUE(session.stats().failovers.empty());
    EXPECT_EQ(world.directory.failures, 0);
    return std::pair{session.stats().moves,
                     session.chain().back().server.id == world.servers.back()->id};
  };
  EXPECT_EQ(run(100ms, 60, 20), (std::pair{int64_t{1}, true}));
  EXPECT_EQ(run(0s, 60, 20), (std::pair{int64_t{0}, false}));     // off
  EXPECT_EQ(run(100ms, 60, 58), (std::pair{int64_t{0}, false}));  // too late to pay
}

// Chunks of a long prompt overlap: all servers work at once.
TEST(Prefill, StagesOverlap) {
  const auto time_of = [](bool push, int64_t chunk) {
    World world(8, 4);
    for (int32_t first : {0, 2, 4, 6}) {
      Server& server = world.add_server({first, first + 2});
      server.task_time = 2ms;
      server.token_time = 100us;
    }
    auto options = world.session_options(1024);
    options.push = push;
    options.prefill_chunk = chunk;
    InferenceSession session(options, world, world.directory, world, world.loop.clock(), world.rng);
    EXPECT_TRUE(session.open(nullptr));
    const TimePoint began = world.loop.now();
    const auto out = session.step(0, world.inputs(0, 1024), 1000, nullptr);
    EXPECT_TRUE(out) << out.error().text();
    EXPECT_EQ(*out, world.reference(1024, 1000));
    EXPECT_TRUE(session.stats().failovers.empty());
    return seconds(world.loop.now() - began);
  };
  const double one_by_one = time_of(false, 64);
  EXPECT_GT(one_by_one, 4 * 0.104);
  EXPECT_LT(time_of(true, 64), 0.5 * one_by_one);
}

// The property of all failures, with several chunks on the way.
TEST(Prefill, KillAnyServerBeforeAnyEvent) {
  const auto run = [](const std::function<void(World&)>& prepare) {
    World world(12, 4);
    for (int copy = 0; copy < 2; copy++)
      for (int32_t first : {0, 4, 8}) world.add_server({first, first + 4});
    auto options = world.session_options(64);
    options.prefill_chunk = 8;
    InferenceSession session(options, world, world.directory, world, world.loop.clock(), world.rng);
    EXPECT_TRUE(session.open(nullptr));
    prepare(world);
    auto out = session.step(0, world.inputs(0, 60), 50, nullptr);
    for (int64_t p = 60; p < 64 && out; p++) {
      const auto next = session.step(p, world.inputs(p, 1), p, nullptr);
      if (!next) return std::pair{world.loop.events(), next};
      out->insert(out->end(), next->begin(), next->end());
    }
    EXPECT_LE(session.stats().failovers.size(), 1u);
    return std::pair{world.loop.events(), out};
  };
  const std::vector<float> want = World(12, 4).reference(64, 50);
  const auto [events, whole] = run([](World&) {});
  ASSERT_TRUE(whole);
  ASSERT_EQ(*whole, want);
  for (size_t victim = 0; victim < 6; victim++)
    for (int64_t n = 1; n <= events; n++)
      for (const bool freeze : {false, true}) {
        if (freeze && n % 5 != 0) continue;
        const auto [count, out] = run([&](World& world) {
          world.loop.before_event(n, [&world, victim, freeze] {
            Server& server = *world.servers[victim];
            freeze ? world.freeze(server) : world.kill(server);
          });
        });
        ASSERT_TRUE(out) << victim << " " << n << ": " << out.error().text();
        ASSERT_EQ(*out, want) << victim << " " << n;
      }
}

TEST(Prefill, FailedAndDoubledPushesInBetween) {
  for (int64_t after = 0; after < 12; after++)
    for (const bool fail : {true, false}) {
      World world(12, 4);
      for (int32_t first : {0, 4, 8}) world.add_server({first, first + 4});
      auto options = world.session_options(64);
      options.prefill_chunk = 8;
      InferenceSession session(options, world, world.directory, world, world.loop.clock(),
                               world.rng);
      ASSERT_TRUE(session.open(nullptr));
      world.loop.post_after(Duration(2ms) * after,
                            [&] { (fail ? world.pushes_to_fail : world.pushes_to_double) = 2; });
      const auto out = session.step(0, world.inputs(0, 64), 0, nullptr);
      ASSERT_TRUE(out) << out.error().text();
      ASSERT_EQ(*out, world.reference(64, 0)) << after;
    }
}

TEST(Prefill, ChunksFromSpeeds) {
  // one stage: nothing overlaps
  EXPECT_EQ(pipeline_chunk(std::vector<StageSpeed>{{10, 1000, 10000, 0}}, 1024), 1024);
  // unknown speeds
  EXPECT_EQ(pipeline_chunk(std::vector<StageSpeed>{{10, 0, 0, 0}, {10, 0, 0, 0}}, 1024), 128);
  // the less a pass costs beyond its tokens, the smaller the chunks
  const auto chunk = [](double decode, double rtt) {
    return pipeline_chunk(std::vector<StageSpeed>{{10, decode, 10000, rtt}, {10, decode, 10000, 0}},
                          1024);
  };
  EXPECT_LT(chunk(9000, 0), chunk(1000, 0));
  EXPECT_GE(chunk(9000, 0), 32);
  EXPECT_LE(chunk(10, 0), 1024);
  EXPECT_GT(chunk(5000, 0.2), chunk(5000, 0.0));  // a long way wants long chunks
  EXPECT_EQ(chunk(5000, 0) % 32, 0);
}

// PETALS' failure table: usable at every rate, where restarts collapse (bench_failures has all of
// it). Virtual time, so these are no matters of the machine.
TEST(FailureTable, SpeedHoldsWhereRestartsCollapse) {
  const FailureCosts costs;
  const double whole = run_meadow(1024, 0, 1, costs).steps_per_s;
  ASSERT_GT(whole, 0);
  for (const auto& [p, share] : {std::pair{1e-3, 0.9}, {1e-2, 0.6}}) {
    double time = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) {
      const FailureResult r = run_meadow(1024, p, seed, costs);
      ASSERT_TRUE(r.equal) << p << " " << seed;
      ASSERT_GT(r.steps_per_s, 0);
      EXPECT_GT(r.failures, 0);
      time += 1 / r.steps_per_s / 5;
    }
    EXPECT_GE(1 / time / whole, share) << p;
  }
  double restarts = 0;
  for (uint64_t seed = 1; seed <= 5; seed++)
    restarts += 1 / run_restarts(1024, 1e-3, seed, costs).steps_per_s / 5;
  EXPECT_LT(1 / restarts / whole, 0.3);
  EXPECT_EQ(run_restarts(1024, 1e-2, 1, costs).steps_per_s, 0);  // not in an hour
  EXPECT_LT(run_cacheless(1024, 0, 1, costs).steps_per_s, 0.5 * whole);
}

}  // namespace
}  // namespace meadow::sim
