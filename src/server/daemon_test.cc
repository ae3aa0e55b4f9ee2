// A whole swarm in this process, over real sockets: bootstrap peer, servers, client.
#include "server/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/attention.h"
#include "model/testing/test_model.h"
#include "rpc/grpc_connector.h"
#include "rpc/grpc_member.h"
#include "rpc/grpc_probe.h"
#include "rpc/grpc_push.h"
#include "server/self_check.h"
#include "swarm/blocking_inbox.h"
#include "swarm/inference_session.h"
#include "swarm/rendezvous.h"

namespace meadow::server {
namespace {

const SystemClock kClock;

std::shared_ptr<format::ModelFile> model_file(uint64_t seed = 1) {
  model::testing::TestModel model;
  model.seed = seed;
  return model::testing::make_file(model);
}

// One member of the swarm "test". Without `listens` a client.
struct Peer {
  explicit Peer(uint8_t number, std::vector<std::string> join, bool listens = true,
                Digest fingerprint = {}, bool insecure = false, DType cache = DType::kF16)
      : identity(Identity::from_seed(Bytes(32, number))),
        options{identity, {"test", "secret"}, insecure},
        links(options, kClock),
        member(links),
        connector(links),
        push(links),
        probe(links),
        rendezvous(member, std::move(join)) {
    swarm::MembershipOptions m;
    m.swarm = options.swarm;
    m.fingerprint = fingerprint;
    m.numerics = kernels::numerics_id(cache);
    m.version = "0.1.0";
    m.measure_rtt = true;
    m.exchange_period = 100ms;
    membership = std::make_unique<swarm::Membership>(m, identity, member, rendezvous, sequence,
                                                     kClock, Rng(number));
    if (listens) {
      rpc::GrpcServerOptions server;
      server.listen = "127.0.0.1:0";
      auto started = rpc::GrpcServer::start(options, server, *membership, kClock);
      MEADOW_CHECK(started.has_value());
      port = std::move(*started);
      membership->set_address(port->address());
    }
    ticker = std::jthread([this](const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any wake;
      std::unique_lock lock(mutex);
      while (!stop.stop_requested()) {
        membership->tick();
        wake.wait_for(lock, stop, 20ms, [] { return false; });
      }
    });
  }
  ~Peer() {
    daemon.reset();
    ticker.request_stop();
    ticker.join();
    if (port) port->shutdown(Duration(0));
  }

  Result<void> serve(std::shared_ptr<format::ModelFile> file, DaemonOptions o) {
    if (o.cache_tokens == 0) o.cache_tokens = 1024;
    o.probe = &probe;
    MEADOW_TRY(daemon, Daemon::start(std::move(file), o, *membership, *port, push, connector,
                                     kClock, nullptr, nullptr));
    return {};
  }
  // As if the process had died: nobody answers any more, nothing is announced.
  void die() { port->shutdown(Duration(0)); }

  Identity identity;
  rpc::RpcOptions options;
  rpc::Links links;
  rpc::GrpcMember member;
  rpc::GrpcConnector connector;
  rpc::GrpcPush push;
  rpc::GrpcProbe probe;
  swarm::BootstrapRendezvous rendezvous;
  swarm::MemorySequenceStore sequence;
  std::unique_ptr<swarm::Membership> membership;
  std::unique_ptr<rpc::GrpcServer> port;
  std::unique_ptr<Daemon> daemon;
  std::jthread ticker;
};

template <class Done>
bool wait_until(Done done, Duration limit = 20s) {
  const TimePoint until = kClock.now() + limit;
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  while (!done()) {
    if (kClock.now() >= until) return false;
    never.wait_for(lock, 5ms);
  }
  return true;
}

std::unique_ptr<swarm::InferenceSession> session_of(Peer& client, swarm::EventInbox& inbox,
                                                    Rng& rng, const format::ModelFile& file) {
  const auto h = *model::hyperparameters(file);
  swarm::SessionOptions o;
  o.n_blocks = h.n_blocks;
  o.n_embd = h.n_embd;
  o.max_tokens = 256;
  o.fingerprint = *file.fingerprint();
  o.numerics = kernels::numerics_id(DType::kF16);
  o.give_up_after = 15s;
  return std::make_unique<swarm::InferenceSession>(o, client.connector, *client.membership, inbox,
                                                   kClock, rng);
}

struct DaemonTest : testing::Test {
  std::shared_ptr<format::ModelFile> file = model_file();
  model::Hyperparameters h = *model::hyperparameters(*file);
  Peer bootstrap{100, {}};
  Digest fingerprint = *file->fingerprint();

  std::vector<std::string> entrance() const { return {bootstrap.port->address()}; }
  std::unique_ptr<Peer> server(uint8_t number, BlockRange blocks) {
    auto peer = std::make_unique<Peer>(number, entrance(), true, fingerprint);
    DaemonOptions o;
    o.blocks = blocks;
    const auto served = peer->serve(file, o);
    EXPECT_TRUE(served) << served.error().text();
    return peer;
  }
  std::vector<float> inputs(int64_t n) const {
    Rng rng(5);
    std::vector<float> out(static_cast<size_t>(n * h.n_embd));
    for (float& v : out) v = static_cast<float>(rng.uniform() - 0.5);
    return out;
  }
  // What the whole model in one executor makes of them: the bits to equal.
  std::vector<float> whole(std::span<const float> hidden) const {
    auto executor = *engine::SpanExecutor::load(
        file, {.blocks = {0, h.n_blocks}, .threads = 1, .cache_tokens = 1024});
    EXPECT_TRUE(executor->open(SessionId{}, {0, h.n_blocks}, 256));
    return *executor->forward(SessionId{}, 0, hidden, nullptr);
  }
};

TEST_F(DaemonTest, AChainAnswersAndOutlivesItsServers) {
  std::vector<std::unique_ptr<Peer>> servers;
  for (uint8_t i = 0; i < 4; i++)  // every block twice
    servers.push_back(server(i + 1, i % 2 == 0 ? BlockRange{0, 2} : BlockRange{2, 4}));
  Peer client(50, entrance(), false, fingerprint);
  ASSERT_TRUE(wait_until([&] { return client.membership->online().size() == 4; }));

  Rng rng(9);
  swarm::BlockingInbox inbox(kClock);
  const auto session = session_of(client, inbox, rng, *file);
  const auto opened = session->open(nullptr);
  ASSERT_TRUE(opened) << opened.error().text();

  constexpr int64_t kPrompt = 20, kTokens = 12;
  const std::vector<float> hidden = inputs(kPrompt + kTokens), expected = whole(hidden);
  const auto width = static_cast<size_t>(h.n_embd);
  std::vector<float> got;
  const auto step = [&](int64_t first, int64_t n) {
    const auto out = session->step(first,
                                   std::span(hidden).subspan(static_cast<size_t>(first) * width,
                                                             static_cast<size_t>(n) * width),
                                   first, nullptr);
    ASSERT_TRUE(out) << out.error().text();
    got.insert(got.end(), out->begin(), out->end());
  };
  step(0, kPrompt);
  for (int64_t i = 0; i < kTokens; i++) {
    if (i == 4 || i == 8) {  // one of the first span, then one of the second
      const PeerId victim = session->chain()[i == 4 ? 0 : 1].server.id;
      for (auto& s : servers)
        if (s->identity.id() == victim) s->die();
    }
    step(kPrompt + i, 1);
  }
  EXPECT_EQ(got, expected);
  EXPECT_EQ(session->stats().failovers.size(), 2u);
  EXPECT_GT(session->stats().replayed_tokens, 0);
}

TEST_F(DaemonTest, TheSwarmOutlivesItsBootstrapPeer) {
  const auto a = server(1, {0, 4});
  Peer client(50, entrance(), false, fingerprint);
  ASSERT_TRUE(wait_until([&] { return client.membership->online().size() == 1; }));
  bootstrap.die();
  Rng rng(9);
  swarm::BlockingInbox inbox(kClock);
  const auto session = session_of(client, inbox, rng, *file);
  ASSERT_TRUE(session->open(nullptr));
  const auto hidden = inputs(1);
  EXPECT_EQ(*session->step(0, hidden, 0, nullptr), whole(hidden));
  // A newcomer that knows only the server.
  Peer late(51, {a->port->address()}, false, fingerprint);
  EXPECT_TRUE(wait_until([&] { return late.membership->online().size() == 1; }));
}

// What a server measures while it runs stands in its next lease.
TEST_F(DaemonTest, LinksLoadAndNetworkAreAnnounced) {
  const auto first = server(1, {0, 2}), second = server(2, {2, 4});
  Peer client(50, entrance(), false, fingerprint);
  ASSERT_TRUE(wait_until([&] { return client.membership->online().size() == 2; }));
  Rng rng(9);
  swarm::BlockingInbox inbox(kClock);
  const auto session = session_of(client, inbox, rng, *file);
  ASSERT_TRUE(session->open(nullptr));
  const auto lease_of = [&](const Peer& peer) {
    for (const auto& info : client.membership->online())
      if (info.peer.id == peer.identity.id()) return info.lease;
    return swarm::Lease{};
  };
  EXPECT_TRUE(wait_until(
      [&] {
        const swarm::Lease lease = lease_of(*first);
        return lease.links.size() == 1 && lease.network_bytes_per_s > 0 && lease.sessions == 1;
      },
      30s));
  const swarm::Lease lease = lease_of(*first);
  ASSERT_EQ(lease.links.size(), 1u);
  EXPECT_EQ(lease.links[0].peer, second->identity.id());
  EXPECT_GT(lease.links[0].rtt_seconds, 0);
  EXPECT_TRUE(lease_of(*second).links.empty());  // nothing comes after its blocks
  EXPECT_GT(lease.speed.forward, 0);
}

TEST_F(DaemonTest, TakesTheBlocksServedWorst) {
  const auto first = server(1, {0, 3});
  Peer second(2, entrance(), true, fingerprint);
  ASSERT_TRUE(wait_until([&] { return second.membership->online().size() == 1; }));
  DaemonOptions o;
  o.num_blocks = 1;
  const auto served = second.serve(file, o);
  ASSERT_TRUE(served) << served.error().text();
  EXPECT_EQ(second.daemon->blocks(), (BlockRange{3, 4}));
  EXPECT_GT(second.daemon->announced().load.speed.decode, 0);
  EXPECT_GT(second.daemon->announced().load.speed.prefill, 0);
  EXPECT_EQ(second.daemon->announced().block_hashes.size(), 1u);
}

TEST_F(DaemonTest, LeavingIsAnnounced) {
  const auto a = server(1, {0, 4});
  Peer client(50, entrance(), false, fingerprint);
  ASSERT_TRUE(wait_until([&] { return client.membership->online().size() == 1; }));
  a->daemon->leave(100ms);
  EXPECT_TRUE(wait_until([&] { return client.membership->online().empty(); }, 5s));
}

TEST_F(DaemonTest, TouchesItsOwnBlocksOnly) {
  const auto a = server(1, {1, 2});
  uint64_t own = 0;
  for (const auto& tensor : file->tensors())
    if (format::block_of(tensor.name) == 1) own += tensor.bytes;
  // This file also served whole() nowhere: what was touched, the daemon touched.
  EXPECT_LE(a->daemon->weight_bytes_touched(), own + own / 20);
}

TEST_F(DaemonTest, AnotherModelIsNotServedTogether) {
  const auto other_file = model_file(2);
  const auto a = server(1, {0, 4});
  Peer other(2, entrance(), true, *other_file->fingerprint());
  DaemonOptions o;
  o.blocks = BlockRange{0, 4};
  ASSERT_TRUE(other.serve(other_file, o));
  Peer client(50, entrance(), false, fingerprint);
  ASSERT_TRUE(wait_until([&] { return !client.membership->ignored().empty(); }));
  ASSERT_TRUE(wait_until([&] { return client.membership->online().size() == 1; }));
  EXPECT_EQ(client.membership->online()[0].peer.id, a->identity.id());
  EXPECT_EQ(client.membership->ignored()[0].peer.id, other.identity.id());
}

TEST_F(DaemonTest, AnotherCacheTypeIsNotServedTogether) {
  Peer other(1, entrance(), true, fingerprint, false, DType::kQ8_0);
  DaemonOptions o;
  o.blocks = BlockRange{0, h.n_blocks};
  o.cache_type = DType::kQ8_0;
  ASSERT_TRUE(other.serve(file, o));
  Peer client(2, entrance(), false, fingerprint);
  ASSERT_TRUE(wait_until([&] { return !client.membership->ignored().empty(); }));
  EXPECT_TRUE(client.membership->servers().empty());
  EXPECT_NE(client.membership->ignored()[0].reason.find("numerics 513"), std::string::npos);
  // Whoever asks it all the same is told.
  swarm::OpenRequest open;
  open.blocks = *o.blocks;
  open.fingerprint = fingerprint;
  open.numerics = kernels::numerics_id(DType::kF16);
  EXPECT_FALSE(check_answers(client.connector, {other.port->id(), other.port->address()}, open,
                             h.n_embd, 5s, kClock, nullptr));
}

TEST_F(DaemonTest, WrongBlocksAreRefused) {
  Peer peer(1, {}, true, fingerprint);
  DaemonOptions o;
  for (const BlockRange blocks : {BlockRange{0, 5}, {-1, 2}, {2, 2}, {3, 1}}) {
    o.blocks = blocks;
    const auto served = peer.serve(file, o);
    ASSERT_FALSE(served);
    EXPECT_EQ(served.error().code, Code::kInvalidArgument);
  }
  EXPECT_TRUE(peer.membership->servers().empty());
}

// A port that another has taken over in the meantime, a key that is not ours: never online.
TEST_F(DaemonTest, OnlyWhoAnswersItsOwnCallIsOnline) {
  Peer peer(1, {}, true, fingerprint);
  swarm::OpenRequest open;
  open.blocks = {0, 4};
  const auto nobody = check_answers(peer.connector, {peer.identity.id(), "127.0.0.1:1"}, open,
                                    h.n_embd, 300ms, kClock, nullptr);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Code::kUnavailable);
  EXPECT_THAT(nobody.error().message, testing::HasSubstr("127.0.0.1:1"));
  const auto stranger =
      check_answers(peer.connector, {bootstrap.identity.id(), peer.port->address()}, open, h.n_embd,
                    5s, kClock, nullptr);
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().code, Code::kPermissionDenied);
  // A span that does not compute.
  const auto empty = check_answers(peer.connector, {peer.identity.id(), peer.port->address()}, open,
                                   h.n_embd, 300ms, kClock, nullptr);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Code::kUnavailable);
  EXPECT_EQ(own_address("0.0.0.0:7"), "127.0.0.1:7");
  EXPECT_EQ(own_address("[::]:7"), "[::1]:7");
  EXPECT_EQ(own_address("192.0.2.1:7"), "192.0.2.1:7");
}

}  // namespace
}  // namespace meadow::server
