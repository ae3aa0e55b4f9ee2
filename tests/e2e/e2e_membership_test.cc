// Membership with real processes: a swarm without a bootstrap peer, without the one it had, and as
// it is after a kill.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "e2e.h"
#include "swarm/dht/dht_rendezvous.h"

namespace meadow::e2e {
namespace {

const Arguments kPrompt = {"--prompt", "Explain how rivers shape a valley.", "--chat",
                           "--max-tokens", "8"};
const Arguments kSwarm = {"--swarm", "e2e-members:secret"};

// A server of part `i` of `n` that found its port; an error of the test if it did not get ready.
apps::PeerProcess serve(int i, int n, const Arguments& more) {
  const BlockRange blocks = part(i, n);
  const Arguments arguments =
      Arguments{program(),   "serve",    model(),
                "--json",    "--blocks", fmt::format("{}:{}", blocks.first, blocks.last),
                "--threads", "1"} +
      kSwarm + more;
  auto process = apps::ChildProcess::start(arguments);
  EXPECT_TRUE(process);
  apps::PeerProcess out{std::move(*process), arguments, {}, {}, {}, blocks};
  const Json ready = Json::parse(out.process.read_line(within(60s)).value_or(""), nullptr, false);
  EXPECT_TRUE(ready.is_object()) << out.process.stderr_text();
  if (ready.is_object()) {
    out.peer = ready.value("peer", "");
    out.listen = ready.value("listen", "");
  }
  return out;
}

std::vector<std::string> servers_of(const Json& status) {
  std::vector<std::string> out;
  if (status.is_object())
    for (const Json& server : status["servers"]) out.push_back(server.value("peer", ""));
  return out;
}

Answer answer(const Arguments& more) {
  auto client = apps::ChildProcess::start(
      Arguments{program(), "generate", "--model", model(), "--events"} + kSwarm + more + kPrompt);
  EXPECT_TRUE(client);
  return follow(std::move(*client));
}

TEST(MembershipE2e, ASwarmWithoutBootstrapFindsItselfOverADht) {
  const SystemClock clock;
  std::vector<std::unique_ptr<swarm::dht::DhtRendezvous>> strangers;  // they are of no swarm
  Arguments dht = {"--dht", "127.0.0.1:0"};
  for (int i = 0; i < 5; i++) {
    swarm::dht::DhtOptions options;
    options.listen = "127.0.0.1:0";
    if (i > 0) options.nodes = {fmt::format("127.0.0.1:{}", strangers[0]->port())};
    strangers.push_back(swarm::dht::DhtRendezvous::start(options, clock).value());
    dht = dht + Arguments{"--dht-node", fmt::format("127.0.0.1:{}", strangers[i]->port())};
  }
  const Arguments listen = {"--listen", "127.0.0.1:0"};
  const auto first = serve(0, 2, listen + dht);
  const auto second = serve(1, 2, listen + dht);
  expect_same(answer(dht), local_answer(kPrompt));
  // another secret finds nobody
  const Finished other = run(Arguments{"status", "--json", "--swarm", "e2e-members:other"} + dht);
  EXPECT_NE(other.exit.code, 0);
  EXPECT_THAT(other.out + other.err, testing::HasSubstr("DHT"));
}

TEST(MembershipE2e, PeersAreRememberedWhenTheBootstrapPeerIsGone) {
  const TemporaryFolder folder;
  auto boot = apps::ChildProcess::start(
      Arguments{program(), "bootstrap", "--json", "--listen", "127.0.0.1:0"} + kSwarm);
  ASSERT_TRUE(boot);
  const Json ready = Json::parse(boot->read_line(within(20s)).value_or(""), nullptr, false);
  ASSERT_TRUE(ready.is_object());
  const Arguments join = {"--join", ready.value("listen", "")};
  const auto with_key = [&](const std::string& name) {
    return Arguments{"--identity", folder.file(name)};
  };
  const int port = apps::free_port().value();
  const Arguments first_arguments =
      with_key("first") + Arguments{"--listen", fmt::format("127.0.0.1:{}", port)};
  auto first = serve(0, 2, first_arguments + join);
  const auto second = serve(1, 2, with_key("second") + Arguments{"--listen", "127.0.0.1:0"} + join);
  expect_same(answer(join + with_key("client")), local_answer(kPrompt));
  // what a server knows is on the disk a few seconds after its start
  const auto remembers = [&] {
    std::ifstream in(folder.file("first.peers"));
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    return text.find(second.listen) != std::string::npos;
  };
  ASSERT_FALSE(first.process.wait_for_stdout("no such text", within(100ms)));
  for (const TimePoint end = within(70s); !remembers() && SystemClock().now() < end;)
    first.process.wait_for_stdout("no such text", within(200ms));
  ASSERT_TRUE(remembers());

  boot->kill();
  first.process.kill();
  const auto again = serve(0, 2, first_arguments);  // nobody is named to it
  EXPECT_EQ(again.peer, first.peer);
  expect_same(answer(with_key("client")), local_answer(kPrompt));
  const Finished status = run(Arguments{"status", "--json"} + kSwarm + with_key("client"));
  EXPECT_THAT(servers_of(status.json()), testing::UnorderedElementsAre(first.peer, second.peer));
}

// The stated bound: 45 s without traffic.
TEST(MembershipE2e, StatusShowsTheSwarmAsItIsAfterAKill) {
  TestSwarm swarm(2, 1);
  ASSERT_TRUE(swarm.ready());
  const auto status = [&] {
    return run({"status", swarm->invite(), "--json", "--wait", "1"}).json();
  };
  const std::string dead = swarm->server(0).peer, alive = swarm->server(1).peer;
  ASSERT_THAT(servers_of(status()), testing::UnorderedElementsAre(dead, alive));
  EXPECT_EQ(status()["complete"], true);

  swarm->server(0).process.kill();
  const TimePoint killed = SystemClock().now();
  // whoever asks calls the server himself: known at once
  EXPECT_EQ(status()["complete"], false);
  Json now = status();
  while (servers_of(now).size() > 1 && SystemClock().now() < killed + 60s) now = status();
  EXPECT_THAT(servers_of(now), testing::ElementsAre(alive));
  EXPECT_LE(SystemClock().now() - killed, 45s);

  ASSERT_TRUE(swarm->restart_server(0, within(60s)));
  EXPECT_EQ(swarm->server(0).peer, dead);
  now = status();
  EXPECT_THAT(servers_of(now), testing::UnorderedElementsAre(dead, alive));  // never two of it
  EXPECT_EQ(now["complete"], true);
}

}  // namespace
}  // namespace meadow::e2e
