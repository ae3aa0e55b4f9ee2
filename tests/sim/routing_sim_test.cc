// Which servers a running swarm's clients choose when some of them fail: nobody is asked twice who
// has a substitute, nobody is banned who has none. In virtual time.
#include <gtest/gtest.h>

#include "sim/session_world.h"
#include "sim/sim_members.h"

namespace meadow::sim {
namespace {

constexpr int64_t kPrompt = 5, kTotal = 13;

// Three spans, every block on two servers.
struct Doubled {
  Doubled() : world(12, 4) {
    for (int copy = 0; copy < 2; copy++)
      for (int32_t first : {0, 4, 8}) world.add_server({first, first + 4});
    session =
        std::make_unique<InferenceSession>(world.session_options(kTotal), world, world.directory,
                                           world, world.loop.clock(), world.rng);
  }
  World world;
  std::unique_ptr<InferenceSession> session;

  Server& in_use(size_t hop) { return *world.by_id(session->chain().at(hop).server.id); }
};

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
  Doubled s;
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
  Doubled s;
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

}  // namespace
}  // namespace meadow::sim
