// A client, its servers and the network between them, in one process and in virtual time: the real
// InferenceSession and SpanService over fakes of every port. A server can be killed or frozen
// before any event. Thread rule: one thread; nothing here waits for real time.
#pragma once
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"
#include "sim/sim_world.h"
#include "swarm/inference_session.h"
#include "swarm/last_resort.h"
#include "swarm/span_service.h"

namespace meadow::sim {

using namespace swarm;  // NOLINT: the whole file is about it

// Stands for a model: every output depends on the block, on the position and on all inputs of the
// block at this and earlier positions, so that a wrong or missing cache entry shows at once.
class ToyBlocks final : public SpanCompute {
 public:
  ToyBlocks(BlockRange held, int64_t n_embd, int64_t cache_tokens)
      : held_(held), n_embd_(n_embd), free_(cache_tokens) {}

  Result<void> open(SessionId id, BlockRange blocks, int64_t max_tokens) override {
    MEADOW_CHECK(held_.contains(blocks) && !sessions_.contains(id));
    if (max_tokens > free_)
      return fail(Code::kResourceExhausted, "{} of {} positions are free", free_, max_tokens);
    free_ -= max_tokens;
    sessions_[id] = {blocks, max_tokens, {}};
    return {};
  }
  void close(SessionId id) override {
    const auto it = sessions_.find(id);
    if (it == sessions_.end()) return;
    free_ += it->second.max_tokens;
    sessions_.erase(it);
  }
  Result<std::vector<float>> forward(SessionId id, int64_t first, std::span<const float> hidden,
                                     const CancelToken&) override {
    Session& s = sessions_.at(id);
    const int64_t n = static_cast<int64_t>(hidden.size()) / n_embd_;
    MEADOW_CHECK(first <= static_cast<int64_t>(s.sums.size()));
    s.sums.resize(static_cast<size_t>(first));
    std::vector<float> x(hidden.begin(), hidden.end());
    for (int64_t t = 0; t < n; t++) {
      s.sums.emplace_back();
      for (int32_t b = s.blocks.first; b < s.blocks.last; b++)
        block(s, b, first + t, {x.data() + t * n_embd_, static_cast<size_t>(n_embd_)});
    }
    tokens += n;
    return x;
  }
  int64_t free_tokens() const { return free_; }
  size_t sessions() const { return sessions_.size(); }
  int64_t tokens = 0;  // computed so far

 private:
  struct Session {
    BlockRange blocks;
    int64_t max_tokens;
    std::vector<std::map<int32_t, uint64_t>> sums;  // [position][block]: digest of inputs so far
  };
  static uint64_t mix(uint64_t a, uint64_t b) {
    a ^= b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2);
    return (a ^ a >> 31) * 0xbf58476d1ce4e5b9;
  }
  void block(Session& s, int32_t b, int64_t position, std::span<float> x) {
    uint64_t sum = position == 0 ? 7 : s.sums[static_cast<size_t>(position - 1)].at(b);
    for (const float v : x) {
      uint32_t bits;
      std::memcpy(&bits, &v, 4);
      sum = mix(sum, bits);
    }
    s.sums[static_cast<size_t>(position)][b] = sum;
    for (size_t i = 0; i < x.size(); i++)
      x[i] = static_cast<float>(mix(sum, static_cast<uint64_t>(b) << 32 | i) >> 40) * 0x1p-20f;
  }

  BlockRange held_;
  int64_t n_embd_, free_;
  std::map<SessionId, Session> sessions_;
};

class World;

struct Server {
  PeerId id;
  Peer peer = 0;
  BlockRange blocks;
  Duration task_time = 1ms;    // of one step's compute, its first token
  Duration token_time{};       // of every further token
  int64_t step_tokens = 0;     // of the step that is being handed to the service
  Duration to_client_delay{};  // added to everything it sends to clients
  std::unique_ptr<ToyBlocks> compute;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<PushPort> push;
  std::unique_ptr<SpanService> service;
  int64_t pushes_in = 0;
};

// One stream: both ends' view of it.
struct Link {
  Server* server = nullptr;
  uint64_t number = 0;  // the client's, in events
  EventInbox* inbox = nullptr;
  uint64_t served = 0;  // the service's number; 0: not arrived
  bool closed = false;  // by the client
};

// Servers as a client sees them; failed ones are hidden for a while.
class WorldDirectory final : public Directory {
 public:
  explicit WorldDirectory(const Clock& clock) : clock_(clock) {}
  void add(ServerInfo info) { servers_.push_back(std::move(info)); }
  void remove(const PeerId& id) {
    std::erase_if(servers_, [&](const ServerInfo& s) { return s.peer.id == id; });
  }
  std::vector<ServerInfo> online() const override {
    std::vector<ServerInfo> out, left_out;
    for (const auto& s : servers_) {
      const auto it = hidden_.find(s.peer.id);
      const bool hidden = it != hidden_.end() && clock_.now() < it->second;
      (hidden ? left_out : out).push_back(s);
    }
    add_last_resorts(out, std::move(left_out));
    return out;
  }
  void report_failure(const PeerId& id, const Error&) override {
    failures++;
    hidden_[id] = clock_.now() + Duration(15s);
  }
  void report_full(const PeerId& id) override { hidden_[id] = clock_.now() + Duration(1s); }
  void report_success(const PeerId&) override {}
  int failures = 0;

 private:
  const Clock& clock_;
  std::vector<ServerInfo> servers_;
  std::map<PeerId, TimePoint> hidden_;
};

class World final : public SpanConnector, public EventInbox {
 public:
  World(int32_t blocks, int64_t width, uint64_t seed = 1)
      : n_blocks(blocks), n_embd(width), directory(loop.clock()), rng(seed) {}
  ~World() override { servers.clear(); }

  // `tokens_per_s`: what it announces, through one block.
  Server& add_server(BlockRange blocks, int64_t cache_tokens = 100000, double tokens_per_s = 1000);
  void kill(Server& server);
  // Its streams end and its caches are lost, but it goes on answering.
  void reset(Server& server);
  void freeze(Server& server) { loop.freeze(server.peer); }
  bool alive(const Server& server) const { return loop.alive(server.peer); }
  Server* by_id(const PeerId& id);

  SessionOptions session_options(int64_t max_tokens) const;
  // Inputs of block 0 for positions [first, first + n): any function of the position.
  std::vector<float> inputs(int64_t first, int64_t n) const;
  // What the whole model gives for inputs(0, n) on one machine, positions [from, n).
  std::vector<float> reference(int64_t n, int64_t from) const;

  // SpanConnector, EventInbox
  std::unique_ptr<SpanStream> connect(const PeerAddress& server, OpenRequest request,
                                      EventInbox& inbox, uint64_t stream) override;
  void post(StreamEvent event) override { inbox_.push(std::move(event)); }
  std::optional<StreamEvent> wait(TimePoint until, const CancelToken* cancel) override;

  void beat(Server& server);
  // An event for the client, after `delay`; nothing if it closed the stream by then.
  void to_client(std::shared_ptr<Link> link, Duration delay, StreamEvent event);

  const int32_t n_blocks;
  const int64_t n_embd;
  SimWorld loop;
  WorldDirectory directory;
  Rng rng;
  Duration client_latency = 5ms, server_latency = 5ms;  // one way
  Digest fingerprint = sha256("model");
  std::vector<std::unique_ptr<Server>> servers;
  std::vector<std::weak_ptr<Link>> links;  // of every stream so far
  int64_t pushes_to_drop = 0;              // the next ones vanish without a word
  int64_t pushes_to_double = 0;            // the next ones arrive twice
  int64_t pushes_to_fail = 0;              // the next ones report an error
  // Chance that a sending of activations resets its receiver's streams instead of arriving.
  double send_failures = 0;
  Rng failure_dice{1};
  int64_t sends_failed = 0;
  bool send_fails() {
    const bool fails = send_failures > 0 && failure_dice.uniform() < send_failures;
    sends_failed += fails;
    return fails;
  }

 private:
  std::queue<StreamEvent> inbox_;
};

// Three spans of four blocks, every block on two servers, and a client.
struct DoubledSwarm {
  explicit DoubledSwarm(int64_t max_tokens, uint64_t seed = 1) : world(12, 4, seed) {
    for (int copy = 0; copy < 2; copy++)
      for (int32_t first : {0, 4, 8}) world.add_server({first, first + 4});
    session =
        std::make_unique<InferenceSession>(world.session_options(max_tokens), world,
                                           world.directory, world, world.loop.clock(), world.rng);
  }
  World world;
  std::unique_ptr<InferenceSession> session;

  Server& in_use(size_t hop) { return *world.by_id(session->chain().at(hop).server.id); }
};

}  // namespace meadow::sim
