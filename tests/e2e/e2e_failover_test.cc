// Servers die while they answer; the text stays the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "e2e.h"

namespace meadow::e2e {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const Arguments kPrompt = {"--prompt", "Explain how rivers shape a valley.", "--chat",
                           "--max-tokens", "48"};

bool is_token(const Json& event) { return event.value("event", "") == "token"; }

// Three spans, each held twice, a swarm for every test: they kill.
class FailoverTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(swarm.ready());
    local_answer(kPrompt);
  }
  void signal_hop(const Json& route, size_t hop, int signal) {
    ASSERT_LT(hop, route.size());
    apps::PeerProcess* server = swarm->find(route[hop].value("peer", ""));
    ASSERT_NE(server, nullptr);
    server->process.send_signal(signal);
    hit.push_back(server->peer);
  }
  // Answers the prompt and signals these hops of the first route after `at` tokens.
  Answer answer_with(const std::vector<size_t>& hops, int signal, int at) {
    return swarm.answer(kPrompt, [&](const Answer& so_far, const Json& event, int tokens) {
      if (!is_token(event) || tokens != at) return;
      for (size_t hop : hops) signal_hop(so_far.first_route, hop, signal);
    });
  }

  TestSwarm swarm{3, 2};
  std::vector<std::string> hit;
};

class KillOneTest : public FailoverTest, public testing::WithParamInterface<size_t> {};

TEST_P(KillOneTest, TextStaysTheSame) {
  const Answer answer = answer_with({GetParam()}, SIGKILL, 12);
  expect_same(answer, local_answer(kPrompt));
  ASSERT_EQ(hit.size(), 1u);
  EXPECT_THAT(answer.last_peers(), Not(Contains(hit[0])));
  ASSERT_GE(answer.failovers().size(), 1u);
  EXPECT_EQ(answer.failovers()[0]["failed"][0], hit[0]);
  // A reset on loopback is known at once; what is left is the scheduling of a loaded machine.
  EXPECT_LT(answer.failovers()[0]["detection_ms"].get<double>(), 1500);
}
INSTANTIATE_TEST_SUITE_P(EachHop, KillOneTest, testing::Values(0, 1, 2));

TEST_F(FailoverTest, FirstAndLastAtOnce) {
  const Answer answer = answer_with({0, 2}, SIGKILL, 10);
  expect_same(answer, local_answer(kPrompt));
  for (const std::string& peer : hit) EXPECT_THAT(answer.last_peers(), Not(Contains(peer)));
}

TEST_F(FailoverTest, EveryServerOfTheChainAtOnce) {
  const Answer answer = answer_with({0, 1, 2}, SIGKILL, 10);
  expect_same(answer, local_answer(kPrompt));
  for (const std::string& peer : hit) EXPECT_THAT(answer.last_peers(), Not(Contains(peer)));
}

TEST_F(FailoverTest, OneAfterAnotherUpToTheLastToken) {
  const int last = local_answer(kPrompt).done["tokens"].get<int>();
  const Answer answer =
      swarm.answer(kPrompt, [&](const Answer& so_far, const Json& event, int tokens) {
        if (!is_token(event)) return;
        if (tokens == 1) signal_hop(so_far.first_route, 1, SIGKILL);
        if (tokens == last / 2) signal_hop(so_far.first_route, 0, SIGKILL);
        if (tokens == last - 1) signal_hop(so_far.first_route, 2, SIGKILL);
      });
  expect_same(answer, local_answer(kPrompt));
}

TEST_F(FailoverTest, SilentStall) {
  const Answer answer = answer_with({1}, SIGSTOP, 10);
  expect_same(answer, local_answer(kPrompt));
  ASSERT_GE(answer.failovers().size(), 1u);
  EXPECT_LT(answer.failovers()[0]["detection_ms"].get<double>(), 4000);
}

TEST_F(FailoverTest, DuringThePrompt) {
  std::string text;
  for (int i = 0; i < 60; i++) text += "The river number " + std::to_string(i) + " is long. ";
  const Arguments arguments = {"--prompt", text, "--max-tokens", "12"};
  const Answer answer =
      swarm.answer(arguments, [&](const Answer& so_far, const Json& event, int tokens) {
        // The route is told when the chain stands, before the prompt goes in.
        if (event.value("event", "") == "route" && tokens == 0 && hit.empty())
          signal_hop(so_far.first_route, 1, SIGKILL);
      });
  expect_same(answer, local_answer(arguments));
  ASSERT_EQ(hit.size(), 1u);
  EXPECT_THAT(answer.last_peers(), Not(Contains(hit[0])));
}

TEST_F(FailoverTest, SparesDieFirstAndTheChainGoesOn) {
  const Answer answer =
      swarm.answer(kPrompt, [&](const Answer& so_far, const Json& event, int tokens) {
        if (!is_token(event) || tokens != 5) return;
        std::vector<std::string> used;
        for (const Json& hop : so_far.first_route) used.push_back(hop.value("peer", ""));
        for (size_t i = 0; i < swarm->size(); i++)
          if (std::find(used.begin(), used.end(), swarm->server(i).peer) == used.end())
            swarm->server(i).process.send_signal(SIGKILL);
      });
  expect_same(answer, local_answer(kPrompt));
  EXPECT_TRUE(answer.failovers().empty());
}

// Again and again a server of the chain dies and comes back with its key and port.
TEST_F(FailoverTest, ServersComeAndGo) {
  const Arguments arguments = {"--prompt",      "Once upon a time there was a river that",
                               "--max-tokens",  "150",
                               "--temperature", "1",
                               "--seed",        "3"};
  Json route;
  size_t hop = 0;
  int kills = 0;
  const Answer answer = swarm.answer(arguments, [&](const Answer&, const Json& event, int tokens) {
    if (event.value("event", "") == "route") route = event["route"];
    if (!is_token(event) || tokens % 20 != 10) return;
    hop = (hop + 1) % route.size();
    for (size_t i = 0; i < swarm->size(); i++) {
      if (swarm->server(i).peer != route[hop].value("peer", "")) continue;
      const auto restarted = swarm->restart_server(i, within(60s));
      ASSERT_TRUE(restarted) << restarted.error().text();
      kills++;
    }
  });
  expect_same(answer, local_answer(arguments));
  EXPECT_GE(kills, 3);
  EXPECT_GE(answer.failovers().size(), 1u);
}

TEST_F(FailoverTest, SwarmOutlivesItsBootstrapPeer) {
  const Answer answer =
      swarm.answer(kPrompt, [&](const Answer& so_far, const Json& event, int tokens) {
        if (!is_token(event)) return;
        if (tokens == 4) swarm->bootstrap().process.send_signal(SIGKILL);
        if (tokens == 16) signal_hop(so_far.first_route, 1, SIGKILL);
      });
  expect_same(answer, local_answer(kPrompt));
  ASSERT_EQ(hit.size(), 1u);
  // A newcomer with the invite of a server that lives finds the others.
  std::string invite;
  for (size_t i = 0; i < swarm->size(); i++)
    if (swarm->server(i).peer != hit[0]) invite = swarm->server(i).invite;
  auto client = swarm->run(Arguments{"generate", invite, "--model", model(), "--events"} + kPrompt);
  ASSERT_TRUE(client);
  expect_same(follow(std::move(*client)), local_answer(kPrompt));
}

TEST_F(FailoverTest, RestartedServerIsTheSamePeerAndServesAgain) {
  const std::string before = swarm->server(0).peer;
  const auto restarted = swarm->restart_server(0, within(60s));
  ASSERT_TRUE(restarted) << restarted.error().text();
  EXPECT_EQ(swarm->server(0).peer, before);
  // Its twin dies: now the answer needs it.
  swarm->server(3).process.kill();
  const Answer answer = swarm.answer(kPrompt);
  expect_same(answer, local_answer(kPrompt));
  EXPECT_THAT(answer.last_peers(), Contains(before));
}

TEST_F(FailoverTest, NobodyLeftIsOneErrorThatNamesTheBlocks) {
  const Answer answer = swarm.answer(kPrompt + Arguments{"--timeout", "4"},
                                     [&](const Answer&, const Json& event, int tokens) {
                                       if (!is_token(event) || tokens != 6) return;
                                       swarm->server(1).process.send_signal(SIGKILL);
                                       swarm->server(4).process.send_signal(SIGKILL);
                                     });
  EXPECT_EQ(answer.exit.code, 5) << answer.err;
  EXPECT_THAT(answer.err, HasSubstr("blocks 10 to"));
}

}  // namespace
}  // namespace meadow::e2e
