// Peers for tests over real sockets: a server whose blocks add one, a client that waits for events.
// What cannot fail in a sound test ends the program.
// Thread rule: one thread drives a peer; its handlers run on gRPC threads.
#pragma once
#include <atomic>
#include <cstdio>
#include <map>

#include "base/check.h"
#include "base/rng.h"
#include "rpc/grpc_connector.h"
#include "rpc/grpc_member.h"
#include "rpc/grpc_push.h"
#include "rpc/grpc_server.h"
#include "swarm/blocking_inbox.h"
#include "swarm/hidden_codec.h"
#include "swarm/thread_worker.h"

namespace meadow::rpc {

constexpr int64_t kWidth = 8;
constexpr int32_t kTestBlocks = 4;

inline Identity identity(uint8_t number) {
  const Bytes seed(32, number);
  return Identity::from_seed(seed);
}

inline RpcOptions rpc_options(uint8_t number, std::string secret = "s", bool insecure = false) {
  return {identity(number), {"test", std::move(secret)}, insecure};
}

template <class Id>
Id random_id() {
  Id id;
  random_bytes(id.bytes);
  return id;
}

// Every block adds one to every value.
class AddOne final : public swarm::SpanCompute {
 public:
  Result<void> open(SessionId session, BlockRange blocks, int64_t) override {
    blocks_[session] = blocks;
    return {};
  }
  void close(SessionId session) override { blocks_.erase(session); }
  Result<std::vector<float>> forward(SessionId session, int64_t, std::span<const float> hidden,
                                     const CancelToken&) override {
    while (held) std::this_thread::yield();
    std::vector<float> out(hidden.begin(), hidden.end());
    for (float& v : out) v += static_cast<float>(blocks_[session].size());
    return out;
  }
  std::atomic<bool> held{false};

 private:
  std::map<SessionId, BlockRange> blocks_;
};

class Members final : public swarm::MemberHandler {
 public:
  swarm::ExchangeReply exchange(const PeerId& from, const swarm::ExchangeRequest& r) override {
    std::lock_guard lock(mutex);
    callers.push_back(from);
    return {r.news, {}, {"127.0.0.1:1"}};
  }
  swarm::IntroduceReply introduce(const PeerId& from, const swarm::IntroduceRequest&) override {
    std::lock_guard lock(mutex);
    callers.push_back(from);
    return {{"127.0.0.1:2"}};
  }
  std::mutex mutex;
  std::vector<PeerId> callers;
};

struct TestServer {
  explicit TestServer(uint8_t number, RpcOptions o, GrpcServerOptions server_options = {},
                      std::string listen = "127.0.0.1:0")
      : options(std::move(o)), links(options, clock), push(links), id(identity(number).id()) {
    swarm::SpanServiceOptions span;
    span.blocks = {0, kTestBlocks};
    span.n_embd = kWidth;
    span.max_context = 100'000;
    span.max_sessions = 128;
    service = std::make_unique<swarm::SpanService>(span, compute, worker, push, clock);
    server_options.listen = std::move(listen);
    auto started = GrpcServer::start(options, server_options, members, clock);
    MEADOW_CHECK(started.has_value());
    server = std::move(*started);
    server->host(service.get(), &worker);
  }
  explicit TestServer(uint8_t number) : TestServer(number, rpc_options(number)) {}
  ~TestServer() { stop(); }
  void stop() {
    compute.held = false;
    if (server != nullptr) server->shutdown(Duration(0));
    worker.stop();
  }
  swarm::PeerAddress address() const { return {id, server->address()}; }

  SystemClock clock;
  RpcOptions options;
  Links links;
  GrpcPush push;
  PeerId id;
  AddOne compute;
  swarm::ThreadWorker worker;
  Members members;
  std::unique_ptr<swarm::SpanService> service;
  std::unique_ptr<GrpcServer> server;
};

struct TestClient {
  explicit TestClient(RpcOptions options)
      : links(std::move(options), clock), connector(links), member(links), inbox(clock) {}
  explicit TestClient(uint8_t number) : TestClient(rpc_options(number)) {}

  static swarm::OpenRequest open_request() {
    swarm::OpenRequest open;
    open.session = random_id<SessionId>();
    open.epoch = 1;
    open.blocks = {0, kTestBlocks};
    open.max_tokens = 1000;
    return open;
  }
  std::unique_ptr<swarm::SpanStream> connect(const swarm::PeerAddress& to, swarm::OpenRequest open,
                                             uint64_t stream = 1) {
    return connector.connect(to, std::move(open), inbox, stream);
  }

  // The next event that is no beat.
  std::optional<swarm::StreamEvent> next(Duration within = 20s) {
    const TimePoint until = clock.now() + within;
    while (auto event = inbox.wait(until, nullptr)) {
      const auto* message = std::get_if<swarm::ServerMessage>(&event->what);
      if (message == nullptr || !std::holds_alternative<swarm::Beat>(*message)) return event;
    }
    return std::nullopt;
  }
  // The next event if it is this message; what else came is printed.
  template <class Message>
  std::optional<Message> expect() {
    auto event = next();
    if (!event) {
      std::fprintf(stderr, "nothing arrived\n");
      return std::nullopt;
    }
    if (const auto* closed = std::get_if<swarm::StreamClosed>(&event->what)) {
      std::fprintf(stderr, "closed: %s\n", closed->error.text().c_str());
      return std::nullopt;
    }
    auto& message = std::get<swarm::ServerMessage>(event->what);
    if (std::holds_alternative<Message>(message)) return std::get<Message>(std::move(message));
    if (const auto* refused = std::get_if<swarm::StepRefused>(&message))
      std::fprintf(stderr, "refused: %s\n", refused->error.text().c_str());
    return std::nullopt;
  }
  // The error that a stream ended with, whatever came before.
  Error expect_closed() {
    while (auto event = next()) {
      if (auto* closed = std::get_if<swarm::StreamClosed>(&event->what)) return closed->error;
    }
    MEADOW_CHECK(!"the stream was closed in time");
    return {};
  }

  SystemClock clock;
  Links links;
  GrpcConnector connector;
  GrpcMember member;
  swarm::BlockingInbox inbox;
};

inline swarm::StepRequest step_request(uint64_t step, int64_t first, int64_t count, float value) {
  const std::vector<float> values(static_cast<size_t>(count * kWidth), value);
  return {1, step, {first, count, *swarm::encode(values, swarm::Codec::kF32)}, true, first};
}

inline float first_value(const swarm::HiddenStates& hidden) {
  float value = 0;
  if (hidden.bytes.size() >= sizeof value) std::memcpy(&value, hidden.bytes.data(), sizeof value);
  return value;
}

}  // namespace meadow::rpc
