// Membership of whole swarms in virtual time: who finds whom, how fast, and what dead, wrong and
// lying peers can do to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_members.h"

namespace meadow::sim {
namespace {

using swarm::ServerState;
using testing::HasSubstr;

TEST(MembershipSim, TensOfServersConvergeWithClocksHoursApart) {
  SimSwarm swarm;
  Rng rng(1);
  swarm.bootstrap();
  std::vector<Node*> servers;
  for (int i = 0; i < 30; i++) {
    NodeOptions options;
    options.address = SimSwarm::address_of(i);
    options.bootstrap = {"boot:1"};
    options.blocks = {0, 1 + i % kSimBlocks};
    options.clock_offset = Duration(1h) * (static_cast<int>(rng.below(48)) - 24);
    servers.push_back(&swarm.add(options));
    swarm.world.run_for(rng.below(200) * 1ms);
  }
  Node& client = swarm.client({"boot:1"});
  const TimePoint joined = swarm.world.now();
  const auto all_see_all = [&] {
    for (const auto& node : swarm.nodes)
      if (node->members.online().size() != servers.size()) return false;
    return true;
  };
  ASSERT_TRUE(swarm.world.run_for(20s, all_see_all));
  EXPECT_LT(swarm.world.now() - joined, 12s);
  // and it stays so: renewals reach everybody before leases run out
  for (int second = 0; second < 60; second++) {
    swarm.world.run_for(1s);
    ASSERT_EQ(client.members.online().size(), servers.size()) << second;
    ASSERT_EQ(servers[7]->members.online().size(), servers.size()) << second;
  }
  EXPECT_TRUE(client.members.ignored().empty());
  EXPECT_EQ(client.members.stats().leases_refused, 0u);
}

TEST(MembershipSim, TrafficOfAMemberDoesNotGrowWithTheSwarm) {
  const auto calls_per_second_and_node = [](int n) {
    SimSwarm swarm;
    swarm.bootstrap();
    for (int i = 0; i < n; i++) swarm.server(i, {"boot:1"});
    swarm.world.run_for(20s);
    swarm.network.calls = 0;
    swarm.world.run_for(30s);
    return static_cast<double>(swarm.network.calls) / 30 / (n + 1);
  };
  const double small = calls_per_second_and_node(8), large = calls_per_second_and_node(32);
  EXPECT_LT(small, 3);
  EXPECT_LT(large, 1.5 * small);
}

TEST(MembershipSim, ClientFindsServersThatNeverKnewItsBootstrap) {
  SimSwarm swarm;
  swarm.bootstrap();
  Node& first = swarm.server(1, {"boot:1"});
  swarm.world.run_for(1s);
  Node& second = swarm.server(2, {SimSwarm::address_of(1)});
  swarm.world.run_for(5s);
  Node& client = swarm.client({"boot:1"});
  const TimePoint start = swarm.world.now();
  ASSERT_TRUE(swarm.world.run_for(5s, [&] { return client.sees(first) && client.sees(second); }));
  // introduction and exchanges follow at once: a few round trips of 10 ms, not periods of gossip
  EXPECT_LT(swarm.world.now() - start, 500ms);
}

TEST(MembershipSim, AnyServerIntroduces) {
  SimSwarm swarm;
  Node& only = swarm.server(1, {});
  swarm.world.run_for(1s);
  Node& client = swarm.client({SimSwarm::address_of(1)});
  EXPECT_TRUE(swarm.world.run_for(500ms, [&] { return client.sees(only); }));
}

TEST(MembershipSim, SwarmGoesOnWithoutItsBootstrap) {
  SimSwarm swarm;
  Node& boot = swarm.bootstrap();
  std::vector<Node*> servers;
  for (int i = 0; i < 6; i++) servers.push_back(&swarm.server(i, {"boot:1"}));
  Node& client = swarm.client({"boot:1"});
  swarm.world.run_for(10s);
  swarm.kill(boot);
  for (int minute = 0; minute < 10; minute++) {
    swarm.world.run_for(60s);
    EXPECT_EQ(client.members.online().size(), 6u);
  }
  // newcomers join by any member
  Node& late = swarm.server(6, {SimSwarm::address_of(3)});
  EXPECT_TRUE(swarm.world.run_for(10s, [&] { return client.sees(late); }));
  Node& late_client = swarm.client({"boot:1", SimSwarm::address_of(0)});
  EXPECT_TRUE(swarm.world.run_for(5s, [&] { return late_client.members.online().size() == 7; }));
  EXPECT_EQ(late_client.members.bootstrap_unreachable().size(), 1u);
  EXPECT_EQ(late_client.members.bootstrap_unreachable()[0].address, "boot:1");
}

TEST(MembershipSim, ABootstrapThatComesBackIsFilledAgain) {
  SimSwarm swarm;
  Node& boot = swarm.bootstrap();
  for (int i = 0; i < 4; i++) swarm.server(i, {"boot:1"});
  swarm.world.run_for(10s);
  swarm.kill(boot);
  swarm.world.run_for(120s);
  Node& again = swarm.bootstrap();
  EXPECT_TRUE(swarm.world.run_for(40s, [&] { return again.members.online().size() == 4; }));
  Node& client = swarm.client({"boot:1"});
  EXPECT_TRUE(swarm.world.run_for(2s, [&] { return client.members.online().size() == 4; }));
}

TEST(MembershipSim, ASilentBootstrapIsSaidWithinFiveSeconds) {
  for (const bool silent : {false, true}) {
    SimSwarm swarm;
    if (silent) swarm.network.black_holes.insert("boot:1");
    Node& client = swarm.client({"boot:1"});
    const TimePoint start = swarm.world.now();
    EXPECT_TRUE(client.members.bootstrap_unreachable().empty());
    ASSERT_TRUE(
        swarm.world.run_for(5s, [&] { return !client.members.bootstrap_unreachable().empty(); }));
    EXPECT_LT(swarm.world.now() - start, silent ? 4s : 1s);
    EXPECT_FALSE(client.members.connected());
    EXPECT_EQ(client.members.bootstrap_unreachable()[0].error.code,
              silent ? Code::kDeadlineExceeded : Code::kUnavailable);
    // it is tried again, and the complaint goes away
    swarm.network.black_holes.clear();
    swarm.bootstrap();
    swarm.server(1, {"boot:1"});
    EXPECT_TRUE(swarm.world.run_for(7s, [&] { return client.members.online().size() == 1; }));
    EXPECT_TRUE(client.members.bootstrap_unreachable().empty());
  }
}

TEST(MembershipSim, ABlackHoleBesideALiveBootstrapCostsNoTime) {
  SimSwarm swarm;
  swarm.network.black_holes.insert("[2001:db8::1]:1");
  swarm.bootstrap();
  Node& server = swarm.server(1, {"boot:1"});
  swarm.world.run_for(2s);
  Node& client = swarm.client({"[2001:db8::1]:1", "boot:1"});
  EXPECT_TRUE(swarm.world.run_for(500ms, [&] { return client.sees(server); }));
}

TEST(MembershipSim, KilledServersRunOutAndNeverComeBack) {
  SimSwarm swarm;
  Rng rng(5);
  swarm.bootstrap();
  std::vector<Node*> servers;
  for (int i = 0; i < 20; i++) servers.push_back(&swarm.server(i, {"boot:1"}));
  Node& client = swarm.client({"boot:1"});
  swarm.world.run_for(20s);
  for (int i = 0; i < 10; i++) swarm.kill(*servers[static_cast<size_t>(i)]);
  swarm.world.run_for(swarm::kLeaseTtl + 1s);
  for (int step = 0; step < 100; step++) {
    for (const auto& node : swarm.nodes) {
      if (!swarm.world.alive(node->peer)) continue;
      for (int i = 0; i < 10; i++) ASSERT_FALSE(node->sees(*servers[static_cast<size_t>(i)]));
    }
    ASSERT_EQ(client.members.online().size(), 10u);
    swarm.world.run_for(1s);
  }
}

TEST(MembershipSim, LeavingIsKnownAtOnce) {
  SimSwarm swarm;
  swarm.bootstrap();
  std::vector<Node*> servers;
  for (int i = 0; i < 20; i++) servers.push_back(&swarm.server(i, {"boot:1"}));
  Node& client = swarm.client({"boot:1"});
  swarm.world.run_for(20s);
  Node& leaver = *servers[3];
  leaver.members.leave();
  ASSERT_TRUE(swarm.world.run_for(1s, [&] { return leaver.members.announced_to() >= 8; }));
  swarm.kill(leaver);
  EXPECT_TRUE(swarm.world.run_for(6s, [&] {
    for (const auto& node : swarm.nodes)
      if (swarm.world.alive(node->peer) && node->sees(leaver)) return false;
    return true;
  }));
  EXPECT_FALSE(client.sees(leaver));
}

TEST(MembershipSim, JoiningServersCountForPlacementOnly) {
  SimSwarm swarm;
  swarm.bootstrap();
  Node& server = swarm.server(1, {"boot:1"});
  ASSERT_TRUE(server.members.announce(server.span, ServerState::kJoining));
  Node& client = swarm.client({"boot:1"});
  ASSERT_TRUE(swarm.world.run_for(5s, [&] { return client.members.servers().size() == 1; }));
  EXPECT_EQ(client.members.servers()[0].lease.state, ServerState::kJoining);
  EXPECT_FALSE(client.sees(server));
  ASSERT_TRUE(server.members.announce(server.span, ServerState::kOnline));
  EXPECT_TRUE(swarm.world.run_for(3s, [&] { return client.sees(server); }));
}

TEST(MembershipSim, RoundTripsAreMeasured) {
  SimSwarm swarm;
  swarm.bootstrap();
  Node& near = swarm.server(1, {"boot:1"});
  Node& far = swarm.server(2, {"boot:1"});
  swarm.world.run_for(3s);
  Node& client = swarm.client({"boot:1"});
  swarm.world.set_latency(client.peer, far.peer, 40ms);
  ASSERT_TRUE(swarm.world.run_for(2s, [&] { return client.members.online().size() == 2; }));
  swarm.world.run_for(1s);
  for (const auto& info : client.members.online())
    EXPECT_EQ(info.rtt, info.peer.id == near.identity.id() ? 10ms : 80ms);
  // the average follows a change
  swarm.world.set_latency(client.peer, far.peer, 80ms);
  swarm.world.run_for(120s);
  for (const auto& info : client.members.online())
    if (info.peer.id == far.identity.id()) {
      EXPECT_GT(info.rtt, 150ms);
      EXPECT_LE(info.rtt, 160ms);
    }
}

TEST(MembershipSim, AFrozenServerIsLeftOutUntilItAnswers) {
  SimSwarm swarm;
  swarm.bootstrap();
  Node& server = swarm.server(1, {"boot:1"});
  Node& client = swarm.client({"boot:1"});
  ASSERT_TRUE(swarm.world.run_for(3s, [&] { return client.sees(server); }));
  swarm.world.run_for(10s);
  swarm.world.freeze(server.peer);
  EXPECT_TRUE(swarm.world.run_for(20s, [&] { return !client.sees(server); }));
  swarm.world.run_for(60s);
  swarm.world.thaw(server.peer);
  EXPECT_TRUE(swarm.world.run_for(20s, [&] { return client.sees(server); }));
}

TEST(MembershipSim, FailedServersAreOutAtOnceAndComeBackWithANewLease) {
  SimSwarm swarm;
  swarm.bootstrap();
  Node& server = swarm.server(1, {"boot:1"});
  Node& other = swarm.server(2, {"boot:1"});
  Node& client = swarm.client({"boot:1"});
  ASSERT_TRUE(swarm.world.run_for(3s, [&] { return client.sees(server) && client.sees(other); }));
  client.members.report_failure(server.identity.id(), Error{});
  EXPECT_FALSE(client.sees(server));
  const TimePoint failed = swarm.world.now();
  ASSERT_TRUE(swarm.world.run_for(20s, [&] { return client.sees(server); }));
  EXPECT_GE(swarm.world.now() - failed, 1s);
  // full: a moment only, the same lease will do
  client.members.report_full(server.identity.id());
  EXPECT_FALSE(client.sees(server));
  EXPECT_TRUE(swarm.world.run_for(1100ms, [&] { return client.sees(server); }));
  // success forgives
  client.members.report_failure(server.identity.id(), Error{});
  client.members.report_success(server.identity.id());
  EXPECT_TRUE(client.sees(server));
}

TEST(MembershipSim, ServersThatDoNotFitAreNamedAndLeftOut) {
  SimSwarm swarm;
  swarm.bootstrap();
  const auto add = [&](int number, auto change) {
    NodeOptions options;
    options.address = SimSwarm::address_of(number);
    options.bootstrap = {"boot:1"};
    options.blocks = {0, kSimBlocks};
    change(options);
    return &swarm.add(options);
  };
  Node* good = add(1, [](NodeOptions&) {});
  Node* patch = add(2, [](NodeOptions& o) { o.version = "0.1.7"; });
  Node* model = add(3, [](NodeOptions& o) { o.model = "another"; });
  Node* numerics = add(4, [](NodeOptions& o) { o.numerics = 2; });
  Node* version = add(5, [](NodeOptions& o) { o.version = "0.2.0"; });
  Node& client = swarm.client({"boot:1"});
  ASSERT_TRUE(swarm.world.run_for(10s, [&] {
    return client.members.online().size() == 2 && client.members.ignored().size() == 3;
  }));
  EXPECT_TRUE(client.sees(*good));
  EXPECT_TRUE(client.sees(*patch));
  for (const auto& ignored : client.members.ignored()) {
    if (ignored.peer.id == model->identity.id())
      EXPECT_THAT(ignored.reason, HasSubstr("fingerprint"));
    else if (ignored.peer.id == numerics->identity.id())
      EXPECT_EQ(ignored.reason, "numerics 2, this one is 1");
    else {
      EXPECT_EQ(ignored.peer.id, version->identity.id());
      EXPECT_EQ(ignored.reason, "version 0.2.0, this one is 0.1.0");
    }
  }
}

TEST(MembershipSim, FilesThatDifferInABlockNeverMix) {
  SimSwarm swarm;
  swarm.bootstrap();
  std::vector<Node*> servers;
  for (int i = 0; i < 3; i++) {
    NodeOptions options;
    options.address = SimSwarm::address_of(i);
    options.bootstrap = {"boot:1"};
    options.blocks = {0, 10};
    options.content = i == 1;
    servers.push_back(&swarm.add(options));
  }
  swarm.world.run_for(10s);
  Node& client = swarm.client({"boot:1"});
  swarm.world.run_for(10s);
  EXPECT_TRUE(client.sees(*servers[0]));
  EXPECT_FALSE(client.sees(*servers[1]));
  EXPECT_TRUE(client.sees(*servers[2]));
  ASSERT_EQ(client.members.ignored().size(), 1u);
  EXPECT_THAT(client.members.ignored()[0].reason, HasSubstr("content"));
  // not even when the others are gone: a session of this client may have begun with theirs
  swarm.kill(*servers[0]);
  swarm.kill(*servers[2]);
  swarm.world.run_for(60s);
  EXPECT_TRUE(client.members.online().empty());
}

// Everything a stranger can send goes through the handler; here it is called directly.
class Stranger {
 public:
  explicit Stranger(uint64_t number) : identity(Node::identity_of(number)) {}

  swarm::Lease lease(uint64_t sequence, ServerState state = ServerState::kOnline) const {
    swarm::Lease out;
    out.key = identity.public_key();
    out.sequence = sequence;
    out.state = state;
    out.blocks = {0, 1};
    out.n_blocks = kSimBlocks;
    out.block_hashes = {swarm::block_hash_of(sha256("0 0"))};
    out.address = "stranger:1";
    out.fingerprint = sha256("model");
    out.numerics = 1;
    out.version = "0.1.0";
    return out;
  }
  swarm::LeaseEntry entry(uint64_t sequence, ServerState state = ServerState::kOnline,
                          uint32_t age_ms = 0) const {
    return {swarm::sign(lease(sequence, state), identity), age_ms};
  }
  void tell(Node& node, std::vector<swarm::LeaseEntry> news) const {
    swarm::ExchangeRequest request;
    request.news = std::move(news);
    node.members.exchange(identity.id(), request);
  }
  bool online_at(const Node& node) const {
    for (const auto& info : node.members.online())
      if (info.peer.id == identity.id()) return true;
    return false;
  }

  Identity identity;
};

TEST(MembershipSim, OldLeasesCannotBeReplayed) {
  SimSwarm swarm;
  Node& node = swarm.client({});
  const Stranger server(900);
  const auto old = server.entry(5);
  server.tell(node, {old});
  EXPECT_TRUE(server.online_at(node));
  server.tell(node, {server.entry(6, ServerState::kLeaving)});
  EXPECT_FALSE(server.online_at(node));
  server.tell(node, {old});
  EXPECT_FALSE(server.online_at(node));  // withdrawn, and the withdrawal is still kept
  swarm.world.run_for(swarm::kLeaseTtl + 1s);
  server.tell(node, {old, server.entry(6)});
  EXPECT_FALSE(server.online_at(node));  // the withdrawal has run out; its tombstone stands
  EXPECT_EQ(node.members.stats().tombstones, 1u);
  server.tell(node, {server.entry(7)});
  EXPECT_TRUE(server.online_at(node));  // the server itself may come back
  swarm.world.run_for(swarm::kLeaseTtl + 1s);
  EXPECT_FALSE(server.online_at(node));
  server.tell(node, {server.entry(7)});
  EXPECT_FALSE(server.online_at(node));
}

TEST(MembershipSim, AgesAddUpAndRunOutByTheReadersClock) {
  SimSwarm swarm;
  Node& node = swarm.client({});
  const Stranger server(900);
  server.tell(node, {server.entry(1, ServerState::kOnline, 30'000)});
  EXPECT_FALSE(server.online_at(node));  // has run out on the way, and leaves no tombstone
  server.tell(node, {server.entry(1, ServerState::kOnline, 29'000)});
  EXPECT_TRUE(server.online_at(node));
  // what is passed on carries the age
  swarm.world.run_for(500ms);
  EXPECT_EQ(node.members.exchange(PeerId{}, {}).news.at(0).age_ms, 29'500u);
  swarm.world.run_for(600ms);
  EXPECT_FALSE(server.online_at(node));
  server.tell(node, {server.entry(2, ServerState::kOnline, UINT32_MAX)});
  EXPECT_FALSE(server.online_at(node));
}

TEST(MembershipSim, ForgedLeasesAreRefused) {
  SimSwarm swarm;
  Node& node = swarm.client({});
  const Stranger victim(900), attacker(901);
  victim.tell(node, {victim.entry(5)});
  auto forged = victim.entry(6, ServerState::kLeaving);
  forged.lease.signature = attacker.identity.sign(forged.lease.body);
  auto altered = victim.entry(7);
  altered.lease.body.back() ^= 1;
  for (const auto& bad : {forged, altered}) {
    attacker.tell(node, {bad});
    EXPECT_TRUE(victim.online_at(node));
  }
  EXPECT_EQ(node.members.stats().leases_refused, 2u);
  EXPECT_THAT(node.members.stats().last_refusal, HasSubstr("signature"));
  swarm::LeaseEntry garbage;
  garbage.lease.body = Bytes(100, 7);
  // one broken lease ends the message: nothing after it costs a signature check
  attacker.tell(node, {garbage, attacker.entry(1)});
  EXPECT_FALSE(attacker.online_at(node));
}

TEST(MembershipSim, FloodsAreBounded) {
  SimSwarm swarm;
  NodeOptions options;
  options.address = "n:1";
  options.model = "model";
  Node& node = swarm.add(options);
  const Stranger honest(899);
  honest.tell(node, {honest.entry(1)});
  std::vector<swarm::LeaseEntry> news;
  for (uint64_t i = 0; i < swarm::kMaxLeasesPerExchange + 50; i++)
    news.push_back(Stranger(1000 + i).entry(1));
  Stranger(1).tell(node, news);
  EXPECT_EQ(node.members.stats().leases, swarm::kMaxLeasesPerExchange + 1);
  swarm::ExchangeRequest many;
  for (uint64_t i = 0; i < 100'000; i++) {
    PeerId id;
    std::memcpy(id.bytes.data(), &i, sizeof i);
    many.known.push_back({id, swarm::kMaxSequence});
  }
  const auto reply = node.members.exchange(PeerId{}, many);
  EXPECT_LE(reply.news.size(), swarm::kMaxLeasesPerExchange);
  EXPECT_LE(reply.wanted.size(), swarm::kMaxLeasesPerExchange);
  for (int i = 0; i < 5000; i++) {
    swarm::IntroduceRequest request{swarm::SwarmKey{"garden", "secret"}.rendezvous(),
                                    fmt::format("h{}:1", i)};
    PeerId from;
    std::memcpy(from.bytes.data(), &i, sizeof i);
    EXPECT_LE(node.members.introduce(from, request).addresses.size(), swarm::kMaxIntroductions);
  }
  EXPECT_LE(node.members.stats().registered, 1024u);
  EXPECT_LE(node.members.stats().addresses, 1024u);
  // known ones are renewed all the same
  honest.tell(node, {honest.entry(2)});
  EXPECT_TRUE(honest.online_at(node));
}

TEST(MembershipSim, LeasesRunOutEvenIfNobodyTicks) {
  SimSwarm swarm;
  Node& node = swarm.client({});
  const Stranger server(900);
  server.tell(node, {server.entry(1)});
  swarm.world.freeze(node.peer);
  swarm.world.run_for(swarm::kLeaseTtl - 1ms);
  EXPECT_TRUE(server.online_at(node));
  swarm.world.run_for(1ms);
  EXPECT_FALSE(server.online_at(node));
  EXPECT_TRUE(node.members.servers().empty());
}

TEST(MembershipSim, WhatAPartnerLacksFollowsAtOnce) {
  SimSwarm swarm;
  Node& partner = swarm.bootstrap();
  NodeOptions options;
  options.address = "n:1";
  Node& node = swarm.add(options);
  const Stranger server(900);
  server.tell(node, {server.entry(1)});
  node.members.exchange(PeerId{}, {{}, {}, "boot:1"});  // a caller's address is remembered
  EXPECT_THAT(node.members.known_addresses(), testing::Contains("boot:1"));
  // one exchange to learn what is wanted, one to send it: two round trips of 10 ms after a tick
  EXPECT_TRUE(swarm.world.run_for(200ms, [&] { return partner.members.stats().leases > 0; }));
}

TEST(MembershipSim, ServersInLeasesAreAskedToo) {
  SimSwarm swarm;
  Node& hub = swarm.server(1, {});
  Node& other = swarm.server(2, {SimSwarm::address_of(1)});
  swarm.world.run_for(3s);
  Node& node = swarm.client({});
  // somebody passes on the lease of the hub alone, and no address
  for (const auto& entry : hub.members.exchange(PeerId{}, {}).news)
    if (swarm::open(entry.lease)->id() == hub.identity.id())
      node.members.exchange(PeerId{}, {{}, {entry}, ""});
  EXPECT_TRUE(swarm.world.run_for(3s, [&] { return node.sees(other); }));
}

// A bootstrap peer that knows addresses only, most of them dead.
class StaleBootstrap final : public swarm::MemberHandler {
 public:
  explicit StaleBootstrap(std::vector<std::string> addresses) : addresses_(std::move(addresses)) {}
  swarm::ExchangeReply exchange(const PeerId&, const swarm::ExchangeRequest&) override {
    return {};
  }
  swarm::IntroduceReply introduce(const PeerId&, const swarm::IntroduceRequest&) override {
    return {addresses_};
  }

 private:
  std::vector<std::string> addresses_;
};

TEST(MembershipSim, DeadAddressesDelayNobody) {
  SimSwarm swarm;
  Node& server = swarm.server(1, {});
  StaleBootstrap stale({"d1:1", "d2:1", "d3:1", "d4:1", "d5:1", "d6:1", SimSwarm::address_of(1)});
  swarm.network.listeners["boot:1"] = {swarm.world.add_peer(), PeerId{}, &stale};
  for (int i = 0; i < 10; i++) {
    Node& client = swarm.client({"boot:1"});
    EXPECT_TRUE(swarm.world.run_for(300ms, [&] { return client.sees(server); })) << i;
  }
}

TEST(MembershipSim, IntroductionsNeedTheSwarmsKey) {
  SimSwarm swarm;
  Node& boot = swarm.bootstrap();
  swarm.server(1, {"boot:1"});
  swarm.world.run_for(2s);
  EXPECT_FALSE(
      boot.members.introduce(PeerId{}, {swarm::SwarmKey{"garden", "secret"}.rendezvous(), ""})
          .addresses.empty());
  EXPECT_TRUE(
      boot.members.introduce(PeerId{}, {swarm::SwarmKey{"garden", "other"}.rendezvous(), ""})
          .addresses.empty());
}

TEST(MembershipSim, ARestartWithoutItsCounterGoesOnAboveTheOldOne) {
  SimSwarm swarm;
  swarm.bootstrap();
  NodeOptions options;
  options.address = "s1:7000";
  options.bootstrap = {"boot:1"};
  options.blocks = {0, 4};
  options.seed = 77;
  Node& before = swarm.add(options);
  Node& client = swarm.client({"boot:1"});
  swarm.world.run_for(200s);  // some twenty leases
  ASSERT_TRUE(client.sees(before));
  swarm.kill(before);
  options.blocks = {4, 8};
  Node& after = swarm.add(options);
  EXPECT_TRUE(swarm.world.run_for(10s, [&] {
    const auto online = client.members.online();
    return online.size() == 1 && online[0].lease.blocks == after.span.blocks;
  }));
}

TEST(MembershipSim, ChurnKeepsTheLivingInAndTheDeadOut) {
  SimSwarm swarm;
  Rng rng(17);
  swarm.bootstrap();
  Node& client = swarm.client({"boot:1"});
  std::vector<Node*> living;
  int number = 0;
  for (int step = 0; step < 40; step++) {
    if (living.size() < 10 || rng.below(2) == 0) {
      living.push_back(&swarm.server(number++, {"boot:1"}));
    } else {
      const size_t i = rng.below(living.size());
      swarm.kill(*living[i]);
      living.erase(living.begin() + static_cast<std::ptrdiff_t>(i));
    }
    swarm.world.run_for(rng.below(8000) * 1ms);
  }
  swarm.world.run_for(swarm::kLeaseTtl + 2s);
  EXPECT_EQ(client.members.online().size(), living.size());
  for (const Node* node : living) EXPECT_TRUE(client.sees(*node));
  // addresses of the dead are forgotten
  swarm.world.run_for(300s);
  EXPECT_LE(client.members.known_addresses().size(), living.size() + 1);
}

TEST(MembershipSim, EqualSeedsGiveEqualRuns) {
  const auto run = [] {
    SimSwarm swarm;
    swarm.bootstrap();
    for (int i = 0; i < 10; i++) swarm.server(i, {"boot:1"});
    Node& client = swarm.client({"boot:1"});
    swarm.world.run_for(33s);
    const auto stats = client.members.stats();
    return std::tuple(swarm.network.calls, stats.exchanges, stats.leases_accepted);
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace meadow::sim
