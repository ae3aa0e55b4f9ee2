// A swarm whose hosts are tens of milliseconds apart: the answer is the local one, whoever dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "e2e.h"
#include "lab/lab.h"
#include "lab/lab_swarm.h"
#include "lab_here.h"

namespace meadow::e2e {
namespace {

using testing::Contains;
using testing::Not;

const Arguments kPrompt = {"--prompt", "Explain how rivers shape a valley.", "--chat",
                           "--max-tokens", "24"};

// Three spans, each held twice, on hosts of their own; host 0 is the client's.
class LabSwarmTest : public testing::Test {
 protected:
  static constexpr int kSpans = 3, kCopies = 2;

  void SetUp() override {
    if (!lab_here()) GTEST_SKIP();
    auto file = lab::parse_lab("host client\nhosts s 6\ndefault rtt=40ms\n");
    auto started = lab::Lab::start(std::move(file).value());
    ASSERT_TRUE(started) << started.error().text();
    network = std::move(*started);
    auto made = labapp::LabSwarm::start({program(), MEADOW_LAB_PROGRAM}, *network, 0, within(20s));
    ASSERT_TRUE(made) << made.error().text();
    swarm = std::move(*made);
    for (int i = 0; i < kSpans * kCopies; i++) {
      const auto added =
          swarm->add_server(static_cast<size_t>(i + 1), model(), part(i % kSpans, kSpans));
      ASSERT_TRUE(added) << added.error().text();
    }
    const auto ready = swarm->wait_ready(within(60s));
    ASSERT_TRUE(ready) << ready.error().text();
    local_answer(kPrompt);
  }

  Answer answer(const OnEvent& on_event = {}, const Arguments& prompt = kPrompt) {
    auto client = swarm->run(
        0, Arguments{"generate", swarm->invite(), "--model", model(), "--events"} + prompt);
    EXPECT_TRUE(client);
    return follow(std::move(*client), on_event);
  }
  // Signals hop 1 of the first route when eight tokens are there.
  OnEvent hit_the_middle(int signal) {
    return [this, signal](const Answer& so_far, const Json& event, int tokens) {
      if (event.value("event", "") != "token" || tokens != 8) return;
      const auto index = swarm->find(so_far.first_route[1].value("peer", ""));
      ASSERT_TRUE(index);
      hit = swarm->server(*index).peer;
      swarm->server(*index).process.send_signal(signal);
    };
  }

  std::unique_ptr<lab::Lab> network;
  std::unique_ptr<labapp::LabSwarm> swarm;
  std::string hit;
};

TEST_F(LabSwarmTest, FarAwayIsTheSameText) {
  const Answer far = answer();
  expect_same(far, local_answer(kPrompt));
  ASSERT_TRUE(far.done.is_object());
  // Light takes its time: a step is four half-trips of 20 ms at least.
  EXPECT_LT(far.done["tokens_per_s"].get<double>(), 12.5);
  // Losses on the way change when a token comes, not which.
  ASSERT_TRUE(network->set_links({.rtt = 20ms, .jitter = 5ms, .loss = 0.01}));
  expect_same(answer(), local_answer(kPrompt));
}

// A prompt's states take seconds on such links, without a word from anybody: nobody is dead.
TEST_F(LabSwarmTest, SlowIsNotDead) {
  std::string text;
  for (int i = 0; i < 120; i++) text += "The river is long. ";
  const Arguments prompt = {"--prompt", text, "--max-tokens", "4"};
  const Answer& local = local_answer(prompt);
  // Servers measure the links to their neighbours when they are new; that is over after an answer.
  expect_same(answer(), local_answer(kPrompt));
  for (size_t host = 0; host < network->size(); host++)
    ASSERT_TRUE(network->set_rate(host, 6e6, 6e6));
  const Answer slow = answer({}, prompt);
  expect_same(slow, local);
  EXPECT_TRUE(slow.failovers().empty()) << slow.failovers().dump();
}

TEST_F(LabSwarmTest, AServerKilledInTheMiddle) {
  const Answer survived = answer(hit_the_middle(SIGKILL));
  expect_same(survived, local_answer(kPrompt));
  ASSERT_FALSE(hit.empty());
  EXPECT_THAT(survived.last_peers(), Not(Contains(hit)));
  ASSERT_GE(survived.failovers().size(), 1u);
  EXPECT_EQ(survived.failovers()[0]["failed"][0], hit);
}

// Nobody says goodbye when a cable is cut.
TEST_F(LabSwarmTest, AServerCutOff) {
  const Answer survived = answer([&](const Answer& so_far, const Json& event, int tokens) {
    if (event.value("event", "") != "token" || tokens != 8) return;
    const auto index = swarm->find(so_far.first_route[1].value("peer", ""));
    ASSERT_TRUE(index);
    hit = swarm->server(*index).peer;
    const size_t host = *index + 1;
    for (size_t other = 0; other < network->size(); other++)
      EXPECT_TRUE(network->set_link(host, other, {.rtt = 40ms, .loss = 1}));
  });
  expect_same(survived, local_answer(kPrompt));
  ASSERT_FALSE(hit.empty());
  EXPECT_THAT(survived.last_peers(), Not(Contains(hit)));
}

}  // namespace
}  // namespace meadow::e2e
