// The session protocol under every failure we could think of, in virtual time. The property that
// all of them share: what the chain answers is what the whole model gives on one machine.
#include <gtest/gtest.h>

#include "sim/session_world.h"

namespace meadow::sim {
namespace {

constexpr int64_t kPrompt = 5, kTokens = 8, kTotal = kPrompt + kTokens;

struct Swarm : DoubledSwarm {
  explicit Swarm(uint64_t seed = 1) : DoubledSwarm(kTotal, seed) {}
};

// A prompt, then one position at a time; returns what leaves the last block for each step.
Result<std::vector<float>> run(Swarm& s, std::function<void(int64_t)> between = {}) {
  std::vector<float> out;
  MEADOW_TRY_VOID(s.session->open(nullptr));
  MEADOW_TRY(auto first, s.session->step(0, s.world.inputs(0, kPrompt), kPrompt - 1, nullptr));
  out.insert(out.end(), first.begin(), first.end());
  for (int64_t p = kPrompt; p < kTotal; p++) {
    if (between) between(p);
    MEADOW_TRY(auto next, s.session->step(p, s.world.inputs(p, 1), p, nullptr));
    out.insert(out.end(), next.begin(), next.end());
  }
  return out;
}

void expect_same(Swarm& s, const Result<std::vector<float>>& got, const std::string& when) {
  ASSERT_TRUE(got) << when << ": " << got.error().text();
  ASSERT_EQ(*got, s.world.reference(kTotal, kPrompt - 1)) << when;
}

int64_t events_without_failure() {
  Swarm s;
  EXPECT_TRUE(run(s));
  return s.world.loop.events();
}

TEST(SessionSim, AnswersLikeOneMachine) {
  Swarm s;
  expect_same(s, run(s), "no failure");
  EXPECT_EQ(s.session->stats().replays, 0);
  EXPECT_EQ(s.session->stats().failovers.size(), 0u);
  EXPECT_EQ(s.session->position(), kTotal);
}

// O(n·t), counted: each position crosses each of the n borders once, and comes back to the client
// once from each span; nothing else.
TEST(SessionSim, BytesAreOncePerPositionAndSpan) {
  Swarm s;
  ASSERT_TRUE(run(s));
  s.world.loop.run_for(1s);
  const uint64_t width = 4 * 4;
  const auto& stats = s.session->stats();
  EXPECT_EQ(stats.hidden_bytes_sent, kTotal * width);
  uint64_t in = 0;
  for (auto& server : s.world.servers) in += server->service->stats().hidden_bytes_in;
  EXPECT_EQ(in, 3 * kTotal * width);
  EXPECT_EQ(s.session->stats().relayed, 0);
}

// Kill each server of the chain before every single event of the run.
TEST(SessionSim, KillAnyServerBeforeAnyEvent) {
  const int64_t events = events_without_failure();
  ASSERT_GT(events, 100);
  for (size_t victim = 0; victim < 6; victim++)
    for (int64_t n = 1; n <= events; n++) {
      Swarm s;
      s.world.loop.before_event(n, [&] { s.world.kill(*s.world.servers[victim]); });
      expect_same(s, run(s), fmt::format("server {} before event {}", victim, n));
      // One death costs one replacement: the newcomer has everything that it will be asked for.
      ASSERT_LE(s.session->stats().failovers.size(), 1u) << victim << " " << n;
      ASSERT_LE(s.world.directory.failures, 1) << victim << " " << n;
    }
}

// Two at once, at every event: a whole copy of two neighbouring spans, and of both ends.
TEST(SessionSim, KillTwoServersBeforeAnyEvent) {
  const int64_t events = events_without_failure();
  for (auto [a, b] : {std::pair{0, 1}, {1, 2}, {0, 2}, {1, 5}, {3, 4}})
    for (int64_t n = 1; n <= events; n += 2) {
      Swarm s;
      s.world.loop.before_event(n, [&] {
        s.world.kill(*s.world.servers[a]);
        s.world.kill(*s.world.servers[b]);
      });
      expect_same(s, run(s), fmt::format("servers {} and {} before event {}", a, b, n));
    }
}

// A server freezes (no reset, no answer) before any event: detected by silence within 3 s.
TEST(SessionSim, FreezeAnyServerBeforeAnyEvent) {
  const int64_t events = events_without_failure();
  for (size_t victim = 0; victim < 6; victim++)
    for (int64_t n = 1; n <= events; n += 3) {
      Swarm s;
      s.world.loop.before_event(n, [&] { s.world.freeze(*s.world.servers[victim]); });
      expect_same(s, run(s), fmt::format("server {} frozen before event {}", victim, n));
      for (const auto& f : s.session->stats().failovers)  // 5 s: while opening
        EXPECT_LE(seconds(f.detection), f.position == 0 ? 5.1 : 3.0);
    }
}

TEST(SessionSim, ResetIsNoticedWithinOneRoundTripAnd100Ms) {
  Swarm s;
  const auto got = run(s, [&](int64_t p) {
    if (p == kPrompt + 2) s.world.kill(s.in_use(1));
  });
  expect_same(s, got, "kill between steps");
  ASSERT_EQ(s.session->stats().failovers.size(), 1u);
  const FailoverRecord& f = s.session->stats().failovers[0];
  EXPECT_LE(milliseconds(f.detection), 2 * 5 + 100);
  // Only the failed span is fed again, once.
  EXPECT_EQ(f.replayed_tokens, kPrompt + 2);
  EXPECT_EQ(s.session->stats().replays, 1);
  EXPECT_EQ(s.world.directory.failures, 1);  // the healthy ones are not blamed
}

TEST(SessionSim, SilentStallIsNoticedWithin3Seconds) {
  for (size_t hop : {0, 1, 2}) {
    Swarm s;
    const auto got = run(s, [&](int64_t p) {
      if (p == kPrompt + 3) s.world.freeze(s.in_use(hop));
    });
    expect_same(s, got, "freeze");
    ASSERT_EQ(s.session->stats().failovers.size(), 1u) << hop;
    EXPECT_LE(seconds(s.session->stats().failovers[0].detection), 3.0);
    EXPECT_GE(seconds(s.session->stats().failovers[0].detection), 1.0);
  }
}

TEST(SessionSim, LongComputeIsNoStall) {
  Swarm s;
  ASSERT_TRUE(s.session->open(nullptr));
  for (auto& server : s.world.servers) server->task_time = 20s;
  const auto out = s.session->step(0, s.world.inputs(0, kTotal), 0, nullptr);
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(*out, s.world.reference(kTotal, 0));
  EXPECT_TRUE(s.session->stats().failovers.empty());
  EXPECT_GE(seconds(s.world.loop.now().time_since_epoch()), 60);
}

// PETALS' own claim P1: if all fail after every step it degrades to cache-less generation.
TEST(SessionSim, EveryServerDiesAfterOneStep) {
  Swarm s;
  ASSERT_TRUE(s.session->open(nullptr));
  std::vector<float> out;
  for (int64_t p = 0; p < kTotal; p++) {
    const auto next = s.session->step(p, s.world.inputs(p, 1), p, nullptr);
    ASSERT_TRUE(next) << p << ": " << next.error().text();
    out.insert(out.end(), next->begin(), next->end());
    for (auto& server : s.world.servers)
      if (s.world.alive(*server)) {
        s.world.kill(*server);
        s.world.directory.remove(server->id);
      }
    for (int32_t first : {0, 4, 8}) s.world.add_server({first, first + 4});
  }
  EXPECT_EQ(out, s.world.reference(kTotal, 0));
  EXPECT_EQ(s.session->stats().replayed_tokens, 3 * kTotal * (kTotal - 1) / 2);
}

TEST(SessionSim, ReplacementDiesDuringTheReplay) {
  for (int kills = 1; kills <= 2; kills++) {
    Swarm s;
    Server& third = s.world.add_server({4, 8});
    (void)third;
    int64_t done = 0;
    const auto got = run(s, [&](int64_t p) {
      if (p != kPrompt + 1) return;
      Server& first = s.in_use(1);
      s.world.kill(first);
      // whichever takes over dies as soon as it has begun to be fed
      for (auto& server : s.world.servers)
        if (server.get() != &first && server->blocks == first.blocks && done < kills) {
          done++;
          Server* target = server.get();
          s.world.loop.post_after(22ms, [&world = s.world, target] { world.kill(*target); });
          break;
        }
    });
    expect_same(s, got, "replacement dies");
    EXPECT_GE(s.session->stats().failovers.size(), 1u);
  }
}

TEST(SessionSim, TwoShorterServersReplaceOne) {
  World world(12, 4);
  Server& whole = world.add_server({0, 12});
  world.add_server({0, 5});
  world.add_server({5, 12});
  InferenceSession session(world.session_options(kTotal), world, world.directory, world,
                           world.loop.clock(), world.rng);
  ASSERT_TRUE(session.open(nullptr));
  ASSERT_EQ(session.chain().size(), 1u);
  ASSERT_TRUE(session.step(0, world.inputs(0, kPrompt), kPrompt - 1, nullptr));
  world.kill(whole);
  const auto out = session.step(kPrompt, world.inputs(kPrompt, kTokens), kPrompt, nullptr);
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(*out, world.reference(kTotal, kPrompt));
  EXPECT_EQ(describe(session.chain()).find("0:5") != std::string::npos, true);
  EXPECT_EQ(session.stats().replayed_tokens, 2 * kPrompt);
}

// The copies to the client are off the critical path: late by 200 ms each, the steps take as long.
TEST(SessionSim, LateCopiesCostNothing) {
  Duration usual{};
  for (const Duration delay : {Duration(0), Duration(200ms)}) {
    Swarm s;
    ASSERT_TRUE(s.session->open(nullptr));
    for (size_t hop : {0, 1}) s.in_use(hop).to_client_delay = delay;
    const TimePoint began = s.world.loop.now();
    for (int64_t p = 0; p < kTotal; p++)
      ASSERT_TRUE(s.session->step(p, s.world.inputs(p, 1), p, nullptr));
    const Duration took = s.world.loop.now() - began;
    if (delay == Duration(0)) usual = took;
    EXPECT_EQ(took, usual);
    // (n + 1) half-trips and n computations a step
    EXPECT_EQ(took, kTotal * (4 * Duration(5ms) + 3 * Duration(1ms)));
  }
}

// Late copies and a kill: what the client lacks it gets from the server that still has it.
TEST(SessionSim, MissingCopiesAreResent) {
  for (size_t victim : {1, 2}) {
    Swarm s;
    ASSERT_TRUE(s.session->open(nullptr));
    s.in_use(victim - 1).to_client_delay = 300ms;
    std::vector<float> out;
    for (int64_t p = 0; p < kTotal; p++) {
      if (p == 6) s.world.kill(s.in_use(victim));
      const auto next = s.session->step(p, s.world.inputs(p, 1), p, nullptr);
      ASSERT_TRUE(next) << next.error().text();
      out.insert(out.end(), next->begin(), next->end());
    }
    EXPECT_EQ(out, s.world.reference(kTotal, 0));
    EXPECT_GE(s.session->stats().resends, 1);
  }
}

// The server dies after its push arrived and before its copy reached the client, and so does the
// next one: the inputs of the newcomer exist nowhere and are computed again.
TEST(SessionSim, CopyLostWithItsServerAndTheNextOneToo) {
  Swarm s;
  ASSERT_TRUE(s.session->open(nullptr));
  Server& a = s.in_use(0);
  Server& b = s.in_use(1);
  a.to_client_delay = 300ms;
  std::vector<float> out;
  for (int64_t p = 0; p < kTotal; p++) {
    if (p == 6) {
      s.world.kill(a);
      s.world.kill(b);
    }
    const auto next = s.session->step(p, s.world.inputs(p, 1), p, nullptr);
    ASSERT_TRUE(next) << next.error().text();
    out.insert(out.end(), next->begin(), next->end());
  }
  EXPECT_EQ(out, s.world.reference(kTotal, 0));
}

TEST(SessionSim, LostDoubledAndFailedPushes) {
  for (int64_t at = 0; at < 20; at++)
    for (int kind = 0; kind < 3; kind++) {
      Swarm s;
      const auto got = run(s, [&](int64_t p) {
        if (p != kPrompt + at % 4) return;
        (kind == 0   ? s.world.pushes_to_drop
         : kind == 1 ? s.world.pushes_to_double
                     : s.world.pushes_to_fail) = 1 + at % 3;
      });
      expect_same(s, got, fmt::format("pushes, kind {} at {}", kind, at));
      if (kind == 1) {
        EXPECT_TRUE(s.session->stats().failovers.empty());
      } else if (kind == 2) {
        EXPECT_GE(s.session->stats().relayed, 1);
      }
    }
}

TEST(SessionSim, PushesOffGiveTheSame) {
  Swarm s;
  auto options = s.world.session_options(kTotal);
  options.push = false;
  s.session = std::make_unique<InferenceSession>(options, s.world, s.world.directory, s.world,
                                                 s.world.loop.clock(), s.world.rng);
  const auto got = run(s, [&](int64_t p) {
    if (p == kPrompt + 4) s.world.kill(s.in_use(2));
  });
  expect_same(s, got, "pushes off");
  for (auto& server : s.world.servers) EXPECT_EQ(server->pushes_in, 0);
}

TEST(SessionSim, RollbackGoesBackNeverForward) {
  Swarm s;
  ASSERT_TRUE(s.session->open(nullptr));
  auto wrong = s.world.inputs(20, 6);
  ASSERT_TRUE(s.session->step(0, s.world.inputs(0, 4), 3, nullptr));
  ASSERT_TRUE(s.session->step(4, wrong, 9, nullptr));
  const auto forward = s.session->step(11, s.world.inputs(11, 1), 11, nullptr);
  ASSERT_FALSE(forward);
  EXPECT_EQ(forward.error().code, Code::kInvalidArgument);
  s.world.kill(s.in_use(1));
  const auto out = s.session->step(4, s.world.inputs(4, kTotal - 4), 4, nullptr);
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(*out, s.world.reference(kTotal, 4));
}

TEST(SessionSim, NobodyThereIsOneErrorThatNamesTheBlocks) {
  World world(12, 4);
  world.add_server({0, 4});
  world.add_server({8, 12});
  auto options = world.session_options(kTotal);
  options.give_up_after = 7s;
  InferenceSession session(options, world, world.directory, world, world.loop.clock(), world.rng);
  const TimePoint began = world.loop.now();
  const auto opened = session.open(nullptr);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kUnavailable);
  EXPECT_NE(opened.error().message.find("4 to 7"), std::string::npos) << opened.error().text();
  EXPECT_NEAR(seconds(world.loop.now() - began), 7, 0.5);
}

TEST(SessionSim, WaitsForAHolderToAppear) {
  Swarm s;
  const auto got = run(s, [&](int64_t p) {
    if (p != kPrompt + 2) return;
    for (size_t i : {1, 4}) {
      s.world.kill(*s.world.servers[i]);
      s.world.directory.remove(s.world.servers[i]->id);
    }
    s.world.loop.post_after(9s, [&] { s.world.add_server({4, 8}); });
  });
  expect_same(s, got, "a holder appears after 9 s");
}

// Room is reserved when a session opens, given back when it ends, and its lack blames nobody.
TEST(SessionSim, RoomIsReservedAndGivenBack) {
  World world(12, 4);
  Server& small = world.add_server({0, 12}, kTotal);
  Server& big = world.add_server({0, 12}, 10 * kTotal);
  world.directory.remove(small.id);
  world.directory.remove(big.id);
  ServerInfo info{.peer = {small.id, ""}, .rtt = Duration(1ms)};
  info.lease.blocks = {0, 12};
  info.lease.codecs = 0b1110;
  info.lease.speed.decode = 1000;
  info.lease.free_cache_tokens = 100000;  // an old lease: it lies
  world.directory.add(info);
  info.peer.id = big.id;
  info.rtt = Duration(50ms);
  world.directory.add(info);
  auto a = std::make_unique<InferenceSession>(world.session_options(kTotal), world, world.directory,
                                              world, world.loop.clock(), world.rng);
  const auto opened = a->open(nullptr);
  ASSERT_TRUE(opened) << opened.error().text();
  EXPECT_EQ(small.compute->free_tokens(), 0);  // reserved, before any token
  a.reset();
  world.loop.run_for(1s);
  EXPECT_EQ(small.compute->free_tokens(), kTotal);
  EXPECT_EQ(small.compute->sessions(), 0u);

  SessionId other;
  other.bytes[3] = 9;
  ASSERT_TRUE(small.compute->open(other, {0, 12}, 1));
  InferenceSession b(world.session_options(kTotal), world, world.directory, world,
                     world.loop.clock(), world.rng);
  ASSERT_TRUE(b.open(nullptr));
  EXPECT_EQ(b.chain().at(0).server.id, big.id);
  EXPECT_EQ(world.directory.failures, 0);
}

TEST(SessionSim, CancelStopsTheWaitAndTheSessionGoesOn) {
  Swarm s;
  ASSERT_TRUE(s.session->open(nullptr));
  ASSERT_TRUE(s.session->step(0, s.world.inputs(0, 4), 3, nullptr));
  CancelToken cancel;
  s.world.loop.post_after(7ms, [&] { cancel.cancel(); });
  const auto out = s.session->step(4, s.world.inputs(4, 3), 6, &cancel);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::kCancelled);
  const auto rest = s.session->step(4, s.world.inputs(4, kTotal - 4), 4, nullptr);
  ASSERT_TRUE(rest) << rest.error().text();
  EXPECT_EQ(*rest, s.world.reference(kTotal, 4));
}

TEST(SessionSim, LongPromptsTravelInSeveralSteps) {
  World world(4, 8192);  // 32 positions to the megabyte
  for (int i = 0; i < 2; i++) {
    world.add_server({0, 2});
    world.add_server({2, 4});
  }
  InferenceSession session(world.session_options(200), world, world.directory, world,
                           world.loop.clock(), world.rng);
  ASSERT_TRUE(session.open(nullptr));
  const auto a = session.step(0, world.inputs(0, 150), 149, nullptr);
  ASSERT_TRUE(a) << a.error().text();
  for (auto& s : world.servers)
    if (s->id == session.chain()[1].server.id) world.kill(*s);
  const auto b = session.step(150, world.inputs(150, 50), 150, nullptr);
  ASSERT_TRUE(b) << b.error().text();
  const auto want = world.reference(200, 149);
  EXPECT_EQ(std::vector<float>(want.begin(), want.begin() + 8192), *a);
  EXPECT_EQ(std::vector<float>(want.begin() + 8192, want.end()), *b);
}

// A server that answers more than it was asked is replaced; the journal does not believe it.
TEST(SessionSim, AnswersBeyondTheStepAreNotBelieved) {
  for (const size_t hop : {size_t{0}, size_t{1}, size_t{2}}) {
    Swarm s;
    const auto got = run(s, [&](int64_t p) {
      if (p != kPrompt + 2) return;
      const PeerId liar = s.in_use(hop).id;
      for (const auto& weak : s.world.links)
        if (auto link = weak.lock(); link && link->server->id == liar && !link->closed)
          s.world.to_client(link, 2ms,
                            {link->number, StepOutput{.epoch = 1,
                                                      .step = ~uint64_t{0},
                                                      .output = {p, 1000, Bytes(1000 * 4 * 4)},
                                                      .position = p + 1000}});
    });
    expect_same(s, got, "a server that answers too much");
    EXPECT_EQ(s.session->stats().failovers.size(), 1u);
  }
}

// A step over links of round trip r and n servers takes (n + 1) half-trips, not n whole ones.
TEST(SessionSim, PushesMakeAStepOneWayTrips) {
  for (const bool push : {true, false}) {
    World world(4, 4);
    for (int32_t b = 0; b < 4; b++) world.add_server({b, b + 1});
    world.client_latency = world.server_latency = 50ms;
    auto options = world.session_options(20);
    options.push = push;
    InferenceSession session(options, world, world.directory, world, world.loop.clock(), world.rng);
    ASSERT_TRUE(session.open(nullptr));
    const TimePoint began = world.loop.now();
    for (int64_t p = 0; p < 20; p++) ASSERT_TRUE(session.step(p, world.inputs(p, 1), p, nullptr));
    const Duration step = (world.loop.now() - began) / 20;
    EXPECT_EQ(step, push ? 5 * Duration(50ms) + 4 * Duration(1ms)
                         : 8 * Duration(50ms) + 4 * Duration(1ms));
  }
}

// The codec belongs to the session: a replacement answers in it, and the text stays the same.
TEST(SessionSim, RoundedHiddenStatesSurviveTheSameFailures) {
  const auto with_kill = [](Codec codec, int64_t at) {
    Swarm s;
    auto options = s.world.session_options(kTotal);
    options.codec = codec;
    s.session = std::make_unique<InferenceSession>(options, s.world, s.world.directory, s.world,
                                                   s.world.loop.clock(), s.world.rng);
    const auto got = run(s, [&](int64_t p) {
      if (p == at) s.world.kill(s.in_use(static_cast<size_t>(p) % 3));
    });
    EXPECT_TRUE(got) << got.error().text();
    EXPECT_EQ(
        s.session->stats().hidden_bytes_sent % static_cast<uint64_t>(bytes_per_position(4, codec)),
        0u);
    return got.value_or(std::vector<float>{});
  };
  for (const Codec codec : {Codec::kF16, Codec::kQ8}) {
    const auto want = with_kill(codec, -1);
    EXPECT_EQ(want.size(), static_cast<size_t>(4 * (kTokens + 1)));
    for (int64_t at = kPrompt; at < kTotal; at++) EXPECT_EQ(with_kill(codec, at), want);
  }
}

// PETALS' failure rates: each push takes its receiver down with probability p.
TEST(SessionSim, FailureRatesUpToOnePercentOverManyTokens) {
  for (const double p : {1e-4, 1e-3, 1e-2})
    for (const int64_t n : {int64_t{128}, int64_t{1024}}) {
      World world(4, 4);
      for (int copy = 0; copy < 2; copy++)
        for (int32_t b = 0; b < 4; b++) world.add_server({b, b + 1});
      InferenceSession session(world.session_options(n), world, world.directory, world,
                               world.loop.clock(), world.rng);
      Rng dice(17);
      ASSERT_TRUE(session.open(nullptr));
      std::vector<float> out;
      int64_t killed = 0;
      for (int64_t at = 0; at < n; at++) {
        for (const Hop& hop : session.chain()) {
          if (dice.uniform() >= p) continue;
          Server& victim = *world.by_id(hop.server.id);
          world.loop.post_after(Duration(1ms) * dice.below(20), [&] { world.kill(victim); });
          world.add_server(victim.blocks);
          world.directory.remove(victim.id);
          killed++;
        }
        const auto next = session.step(at, world.inputs(at, 1), at, nullptr);
        ASSERT_TRUE(next) << next.error().text();
        out.insert(out.end(), next->begin(), next->end());
      }
      EXPECT_EQ(out, world.reference(n, 0)) << p << " " << n;
      EXPECT_GE(killed, static_cast<int64_t>(p * static_cast<double>(n)));
    }
}

// Random swarms, random spans, random failures of every kind: the property, some hundred times.
TEST(SessionSim, RandomSwarmsAndFailures) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    Rng dice(seed);
    World world(10, 4, seed);
    for (int i = 0; i < 8; i++) {
      const int32_t first = static_cast<int32_t>(dice.below(9));
      const int32_t last = first + 1 + static_cast<int32_t>(dice.below(10 - first));
      world.add_server({first, last}).task_time = Duration(1ms) * (1 + dice.below(20));
    }
    world.add_server({0, 10}).task_time = 40ms;  // never fails: somebody is always there
    InferenceSession session(world.session_options(60), world, world.directory, world,
                             world.loop.clock(), world.rng);
    ASSERT_TRUE(session.open(nullptr));
    std::vector<float> out;
    int64_t p = 0;
    while (p < 40) {
      const int64_t n = 1 + static_cast<int64_t>(dice.below(4));
      for (int i = 0; i < 2; i++) {
        if (dice.below(4) != 0) continue;
        Server* victim = world.servers[dice.below(8)].get();
        const bool freeze = dice.below(2) == 0;
        world.loop.post_after(Duration(1ms) * dice.below(60), [&world, victim, freeze] {
          freeze ? world.freeze(*victim) : world.kill(*victim);
        });
      }
      if (dice.below(5) == 0) world.pushes_to_fail = 1;
      if (dice.below(5) == 0) world.pushes_to_double = 2;
      if (dice.below(9) == 0 && p > 4) {  // roll back and say it again
        const int64_t back = 1 + static_cast<int64_t>(dice.below(4));
        p -= back;
        out.resize(static_cast<size_t>(p * 4));
      }
      const auto next = session.step(p, world.inputs(p, n), p, nullptr);
      ASSERT_TRUE(next) << "seed " << seed << ": " << next.error().text();
      out.insert(out.end(), next->begin(), next->end());
      p += n;
    }
    ASSERT_EQ(out, world.reference(p, 0)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace meadow::sim
