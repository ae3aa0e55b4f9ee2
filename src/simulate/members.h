// A simulated swarm of real Memberships: links, clocks and disks are fakes, all in virtual time.
// Thread rule: one thread. Owns the nodes.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "simulate/world.h"
#include "swarm/membership.h"

namespace meadow::simulate {

// Who listens where, as the transport sees it.
struct SimNetwork {
  struct Listener {
    Peer peer = -1;
    PeerId id;
    swarm::MemberHandler* handler = nullptr;
  };
  explicit SimNetwork(SimWorld& w) : world(w) {}

  SimWorld& world;
  std::map<std::string, Listener> listeners;  // by address
  std::set<std::string> black_holes;          // packets to there vanish
  uint64_t calls = 0;
  uint64_t bytes = 0;  // of requests and replies, as proto encodes them
};

// Fields of proto cost a tag and a length of one or two bytes each.
inline uint64_t bytes_of(const std::vector<swarm::LeaseEntry>& news) {
  uint64_t sum = 0;
  for (const swarm::LeaseEntry& entry : news) sum += entry.lease.body.size() + 64 + 12;
  return sum;
}
inline uint64_t bytes_of(const std::vector<std::string>& texts) {
  uint64_t sum = 0;
  for (const std::string& text : texts) sum += text.size() + 2;
  return sum;
}
inline uint64_t bytes_of(const swarm::ExchangeRequest& r) {
  return bytes_of(r.news) + 40 * r.known.size() + r.address.size() + 2;
}
inline uint64_t bytes_of(const swarm::ExchangeReply& r) {
  return bytes_of(r.news) + 34 * r.wanted.size() + bytes_of(r.addresses);
}
inline uint64_t bytes_of(const swarm::IntroduceRequest& r) { return 36 + r.address.size(); }
inline uint64_t bytes_of(const swarm::IntroduceReply& r) { return bytes_of(r.addresses); }
inline uint64_t bytes_of(const Duration&) { return 0; }  // a ping

// MemberPort of one peer: requests arrive after the link's latency, a dead peer refuses, a frozen
// one or a black hole says nothing until the deadline (by the caller's own clock).
class SimMemberPort final : public swarm::MemberPort {
 public:
  SimMemberPort(SimNetwork& network, Peer self, PeerId id)
      : network_(network), self_(self), id_(id) {}

  void exchange(const std::string& address, swarm::ExchangeRequest request, Deadline deadline,
                std::function<void(Result<swarm::ExchangeReply>)> done) override {
    network_.bytes += bytes_of(request);
    call<swarm::ExchangeReply>(address, deadline, std::move(done),
                               [request = std::move(request), from = id_](auto& handler) {
                                 return handler.exchange(from, request);
                               });
  }
  void introduce(const std::string& address, swarm::IntroduceRequest request, Deadline deadline,
                 std::function<void(Result<swarm::IntroduceReply>)> done) override {
    network_.bytes += bytes_of(request);
    call<swarm::IntroduceReply>(address, deadline, std::move(done),
                                [request = std::move(request), from = id_](auto& handler) {
                                  return handler.introduce(from, request);
                                });
  }
  void ping(const swarm::PeerAddress& peer, Deadline deadline,
            std::function<void(Result<Duration>)> done) override {
    const TimePoint sent = network_.world.now();
    call<Duration>(
        peer.address, deadline,
        [done, sent, &world = network_.world](Result<Duration> answer) {
          done(answer ? Result<Duration>(world.now() - sent) : answer);
        },
        [](auto&) { return Duration{}; });
  }

 private:
  template <class Reply>
  void call(const std::string& address, Deadline deadline, std::function<void(Result<Reply>)> done,
            std::function<Reply(swarm::MemberHandler&)> handle) {
    SimWorld& world = network_.world;
    network_.calls++;
    auto once = std::make_shared<std::function<void(Result<Reply>)>>(std::move(done));
    const auto finish = [once](Result<Reply> reply) {
      if (*once) std::exchange(*once, nullptr)(std::move(reply));
    };
    world.post_on(self_, deadline.at() - world.clock_of(self_).now(), [finish, address] {
      finish(fail(Code::kDeadlineExceeded, "{}: no answer", address));
    });
    if (network_.black_holes.contains(address)) return;
    const auto it = network_.listeners.find(address);
    if (it == network_.listeners.end() || !world.alive(it->second.peer)) {
      world.post_on(self_, 10ms, [finish, address] {
        finish(fail(Code::kUnavailable, "{}: connection refused", address));
      });
      return;
    }
    const SimNetwork::Listener to = it->second;
    world.send(self_, to.peer, [this, finish, to, handle] {
      auto reply = std::make_shared<Reply>(handle(*to.handler));
      network_.bytes += bytes_of(*reply);
      network_.world.send(to.peer, self_, [finish, reply] { finish(std::move(*reply)); });
    });
  }

  SimNetwork& network_;
  Peer self_;
  PeerId id_;
};

struct NodeOptions {
  std::string address;                 // empty: a client
  std::vector<std::string> bootstrap;  // where it begins
  BlockRange blocks;                   // empty: serves nothing
  std::string model = "model";         // its fingerprint; empty: of any
  uint32_t numerics = 1;
  std::string version = "0.1.0";
  Duration clock_offset{};
  uint8_t content = 0;  // of its blocks
  uint64_t seed = 0;    // of its identity; 0: its number
};

constexpr int32_t kSimBlocks = 30;

struct Node {
  Node(SimNetwork& network, const NodeOptions& options, uint64_t number)
      : identity(identity_of(options.seed != 0 ? options.seed : number)),
        peer(network.world.add_peer(options.clock_offset)),
        port(network, peer, identity.id()),
        rendezvous(port, options.bootstrap),
        members(membership_options(options), identity, port, rendezvous, sequence,
                network.world.clock_of(peer), Rng(number)) {
    if (!options.address.empty())
      network.listeners[options.address] = {peer, identity.id(), &members};
    tick(network.world);
    if (!options.blocks.empty()) {
      span.blocks = options.blocks;
      span.n_blocks = kSimBlocks;
      for (int32_t b = options.blocks.first; b < options.blocks.last; b++)
        span.block_hashes.push_back(
            swarm::block_hash_of(sha256(fmt::format("{} {}", b, options.content))));
      span.load.speed.decode = 100;
      span.load.free_cache_tokens = 4096;
      MEADOW_CHECK(members.announce(span, swarm::ServerState::kOnline));
    }
  }

  static Identity identity_of(uint64_t number) {
    return Identity::from_seed(sha256(fmt::format("node {}", number)).bytes);
  }
  static swarm::MembershipOptions membership_options(const NodeOptions& options) {
    swarm::MembershipOptions out;
    out.swarm = {"garden", "secret"};
    out.address = options.address;
    if (!options.model.empty()) out.fingerprint = sha256(options.model);
    out.numerics = options.numerics;
    out.version = options.version;
    out.measure_rtt = options.address.empty();
    return out;
  }
  void tick(SimWorld& world) {
    members.tick();
    world.post_on(peer, 100ms, [this, &world] { tick(world); });
  }
  bool sees(const Node& server) const {
    for (const auto& info : members.online())
      if (info.peer.id == server.identity.id()) return true;
    return false;
  }

  Identity identity;
  Peer peer;
  SimMemberPort port;
  swarm::BootstrapRendezvous rendezvous;
  swarm::MemorySequenceStore sequence;
  swarm::Membership members;
  swarm::ServedSpan span;
};

// Builds nodes; all live until the end, so that late events find them.
class SimSwarm {
 public:
  SimSwarm() : network(world) {}
  Node& add(const NodeOptions& options) {
    nodes.push_back(std::make_unique<Node>(network, options, nodes.size() + 1));
    return *nodes.back();
  }
  Node& bootstrap(const std::string& address = "boot:1") {
    NodeOptions options;
    options.address = address;
    options.model = "";
    return add(options);
  }
  Node& server(int number, std::vector<std::string> from, BlockRange blocks = {0, kSimBlocks}) {
    NodeOptions options;
    options.address = address_of(number);
    options.bootstrap = std::move(from);
    options.blocks = blocks;
    return add(options);
  }
  Node& client(std::vector<std::string> from) {
    NodeOptions options;
    options.bootstrap = std::move(from);
    return add(options);
  }
  void kill(Node& node) { world.kill(node.peer); }
  static std::string address_of(int number) { return fmt::format("s{}:7000", number); }

  SimWorld world;
  SimNetwork network;
  std::vector<std::unique_ptr<Node>> nodes;
};

}  // namespace meadow::simulate
