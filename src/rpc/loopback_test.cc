// Client, servers and members over real TLS on the loopback interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "rpc/grpc_probe.h"
#include "rpc/test_peers.h"
#include "swarm/address.h"

namespace meadow::rpc {
namespace {

using namespace swarm;

Deadline soon() { return Deadline::after(SystemClock(), 20s); }

template <class T>
Result<T> wait_for(const std::function<void(std::function<void(Result<T>)>)>& call) {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  auto future = promise->get_future();
  call([promise](Result<T> result) { promise->set_value(std::move(result)); });
  return future.get();
}

Result<ExchangeReply> exchange(TestClient& client, const std::string& address) {
  return wait_for<ExchangeReply>([&](auto done) {
    client.member.exchange(address, ExchangeRequest{{}, {}, "127.0.0.1:9"}, soon(), done);
  });
}

class Loopback : public testing::TestWithParam<std::string> {};

TEST_P(Loopback, OpensAndComputes) {
  TestServer server(1, rpc_options(1), {}, GetParam());
  TestClient client(2);
  auto stream = client.connect(server.address(), client.open_request(), 7);
  ASSERT_TRUE(client.expect<Opened>());
  for (uint64_t step = 1; step <= 3; step++) {
    stream->send(step_request(step, static_cast<int64_t>(step) - 1, 1, 10));
    const auto output = client.expect<StepOutput>();
    ASSERT_TRUE(output);
    EXPECT_EQ(output->step, step);
    EXPECT_EQ(output->output.first_position, static_cast<int64_t>(step) - 1);
    EXPECT_EQ(output->position, static_cast<int64_t>(step));
    EXPECT_EQ(first_value(output->output), 10 + kTestBlocks);
  }
  EXPECT_GT(stream->bytes_sent(), 3 * kWidth * sizeof(float));
  EXPECT_GT(stream->bytes_received(), 3 * kWidth * sizeof(float));
  EXPECT_GE(server.server->stats().bytes_received, stream->bytes_sent());
}
INSTANTIATE_TEST_SUITE_P(Families, Loopback,
                         testing::Values("127.0.0.1:0", "[::1]:0", "localhost:0"));

TEST(LoopbackTest, InsecureForBenches) {
  TestServer server(1, rpc_options(1, "s", true));
  TestClient client(rpc_options(2, "s", true));
  auto stream = client.connect(server.address(), client.open_request());
  ASSERT_TRUE(client.expect<Opened>());
  stream->send(step_request(1, 0, 2, 1));
  EXPECT_TRUE(client.expect<StepOutput>());
}

// No way between secure and insecure peers.
TEST(LoopbackTest, SecureAndInsecureDoNotMix) {
  TestServer secure(1), open(3, rpc_options(3, "s", true));
  TestClient insecure_client(rpc_options(2, "s", true)), secure_client(2);
  auto a = insecure_client.connect(secure.address(), TestClient::open_request());
  insecure_client.expect_closed();
  auto b = secure_client.connect(open.address(), TestClient::open_request());
  secure_client.expect_closed();
  EXPECT_EQ(secure.service->stats().sessions_total, 0);
  EXPECT_EQ(open.service->stats().sessions_total, 0);
}

TEST(LoopbackTest, PushesFromServerToServer) {
  TestServer first(1), second(2);
  TestClient client(3);
  OpenRequest to_second = client.open_request();
  to_second.previous = first.id;
  OpenRequest to_first = client.open_request();
  to_first.next = NextHop{second.address(), to_second.session};
  auto stream2 = client.connect(second.address(), to_second, 2);
  ASSERT_TRUE(client.expect<Opened>());
  auto stream1 = client.connect(first.address(), to_first, 1);
  ASSERT_TRUE(client.expect<Opened>());

  stream1->send(step_request(1, 0, 3, 1));
  std::map<uint64_t, StepOutput> outputs;
  for (int i = 0; i < 2; i++) {
    const auto event = client.next();
    ASSERT_TRUE(event);
    ASSERT_TRUE(std::holds_alternative<ServerMessage>(event->what))
        << std::get<StreamClosed>(event->what).error.text();
    const auto& message = std::get<ServerMessage>(event->what);
    ASSERT_TRUE(std::holds_alternative<StepOutput>(message));
    outputs[event->stream] = std::get<StepOutput>(message);
  }
  EXPECT_EQ(first_value(outputs[1].output), 1 + kTestBlocks);
  EXPECT_EQ(first_value(outputs[2].output), 1 + 2 * kTestBlocks);
  EXPECT_EQ(second.service->stats().steps, 1);
}

TEST(LoopbackTest, APushToNobodyFailsAtOnceAndIsTold) {
  TestServer first(1);
  TestClient client(3);
  OpenRequest open = client.open_request();
  open.next = NextHop{{identity(9).id(), "127.0.0.1:1"}, random_id<SessionId>()};
  auto stream = client.connect(first.address(), open);
  ASSERT_TRUE(client.expect<Opened>());
  stream->send(step_request(1, 0, 1, 1));
  ASSERT_TRUE(client.expect<StepOutput>());
  const auto failed = client.expect<PushFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error.code, Code::kUnavailable) << failed->error.text();
}

// A peer that is admitted but not the session's previous one.
TEST(LoopbackTest, AStrangersPushIsRefused) {
  TestServer server(1);
  TestClient client(2);
  OpenRequest open = client.open_request();
  open.previous = identity(7).id();
  auto stream = client.connect(server.address(), open);
  ASSERT_TRUE(client.expect<Opened>());
  Links links(rpc_options(8), client.clock);
  GrpcPush push(links);
  const StepRequest step = step_request(1, 0, 1, 1);
  const auto result = wait_for<void>([&](auto done) {
    push.push(server.address(), {open.session, 1, 1, step.input, 0}, soon(), done);
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kPermissionDenied) << result.error().text();
  EXPECT_EQ(server.service->stats().steps, 0);
}

// ---- keys and secrets --------------------------------------------------------------------------

TEST(LoopbackTest, AnotherKeyIsRefused) {
  TestServer server(1);
  TestClient client(2);
  auto stream = client.connect({identity(9).id(), server.server->address()}, client.open_request());
  const Error error = client.expect_closed();
  EXPECT_EQ(error.code, Code::kPermissionDenied) << error.text();
  EXPECT_THAT(error.message, testing::HasSubstr(short_id(identity(9).id())));
  EXPECT_THAT(error.message, testing::HasSubstr(short_id(server.id)));
  EXPECT_EQ(server.service->stats().sessions_total, 0);
}

TEST(LoopbackTest, AnotherKeyIsRefusedInsecurelyToo) {
  TestServer server(1, rpc_options(1, "s", true));
  TestClient client(rpc_options(2, "s", true));
  auto stream = client.connect({identity(9).id(), server.server->address()}, client.open_request());
  EXPECT_EQ(client.expect_closed().code, Code::kPermissionDenied);
}

TEST(LoopbackTest, AnotherSecretIsRefused) {
  TestServer server(1);
  TestClient client(rpc_options(2, "other"));
  auto stream = client.connect(server.address(), client.open_request());
  const Error error = client.expect_closed();
  EXPECT_EQ(error.code, Code::kPermissionDenied) << error.text();
  const auto reply = exchange(client, server.server->address());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kPermissionDenied) << reply.error().text();
  EXPECT_EQ(server.service->stats().sessions_total, 0);
  EXPECT_TRUE(server.members.callers.empty());
  EXPECT_GE(server.server->stats().not_admitted, 2);
}

// ---- membership --------------------------------------------------------------------------------

TEST(LoopbackTest, MembersTalkByAddressAlone) {
  TestServer server(1);
  TestClient client(2);
  const auto reply = exchange(client, server.server->address());
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->addresses, std::vector<std::string>{"127.0.0.1:1"});
  const auto introduced = wait_for<IntroduceReply>([&](auto done) {
    client.member.introduce(server.server->address(), {Digest{}, ""}, soon(), done);
  });
  ASSERT_TRUE(introduced) << introduced.error().text();
  EXPECT_EQ(introduced->addresses[0], "127.0.0.1:2");
  EXPECT_EQ(server.members.callers, std::vector<PeerId>(2, identity(2).id()));
  const auto rtt =
      wait_for<Duration>([&](auto done) { client.member.ping(server.address(), soon(), done); });
  ASSERT_TRUE(rtt) << rtt.error().text();
  EXPECT_GT(*rtt, Duration(0));
}

TEST(LoopbackTest, ProbesAreTimedBoundedAndRationed) {
  TestServer server(1);
  TestClient client(2), other(3);
  const auto probe = [&](TestClient& from, uint32_t bytes) {
    GrpcProbe probes(from.links);
    return wait_for<Duration>(
        [&](auto done) { probes.probe(server.address(), bytes, soon(), done); });
  };
  const auto took = probe(client, swarm::kMaxProbeBytes);
  ASSERT_TRUE(took) << took.error().text();
  EXPECT_GT(*took, Duration(0));
  EXPECT_EQ(probe(client, 1).error().code, Code::kResourceExhausted);  // too soon
  EXPECT_EQ(probe(other, swarm::kMaxProbeBytes + 1).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(probe(other, 1));
}

TEST(LoopbackTest, NobodyThere) {
  TestClient client(2);
  const TimePoint start = client.clock.now();
  const auto reply = exchange(client, "127.0.0.1:1");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kUnavailable) << reply.error().text();
  EXPECT_LT(client.clock.now() - start, 10s);
}

// A server that accepts and says nothing: the deadline holds.
TEST(LoopbackTest, ASilentPeerRunsIntoTheDeadline) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), length), 0);
  ASSERT_EQ(listen(fd, 8), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length), 0);
  TestClient client(2);
  const TimePoint start = client.clock.now();
  const auto reply = wait_for<ExchangeReply>([&](auto done) {
    client.member.exchange(fmt::format("127.0.0.1:{}", ntohs(at.sin_port)), {},
                           Deadline::after(client.clock, 300ms), done);
  });
  EXPECT_EQ(reply.error().code, Code::kDeadlineExceeded) << reply.error().text();
  EXPECT_LT(client.clock.now() - start, 5s);
  close(fd);
}

// ---- ends --------------------------------------------------------------------------------------

TEST(LoopbackTest, AServerThatDiesClosesTheStreamAtOnce) {
  auto server = std::make_unique<TestServer>(1);
  TestClient client(2);
  auto stream = client.connect(server->address(), client.open_request());
  ASSERT_TRUE(client.expect<Opened>());
  const TimePoint start = client.clock.now();
  server->server->shutdown(Duration(0));
  const Error error = client.expect_closed();
  EXPECT_LT(client.clock.now() - start, 2s);
  EXPECT_TRUE(error.code == Code::kUnavailable || error.code == Code::kCancelled) << error.text();
}

// The same key at the same port, started anew: it has forgotten who was admitted.
TEST(LoopbackTest, ARestartedServerIsReachedAtOnce) {
  auto server = std::make_unique<TestServer>(1);
  const PeerAddress address = server->address();
  TestClient client(2);
  auto stream = client.connect(address, client.open_request());
  ASSERT_TRUE(client.expect<Opened>());
  server.reset();
  client.expect_closed();
  auto refused = client.connect(address, client.open_request());
  EXPECT_EQ(client.expect_closed().code, Code::kUnavailable);
  TestServer again(1, rpc_options(1), {}, address.address);
  auto second = client.connect(address, client.open_request());
  EXPECT_TRUE(client.expect<Opened>());
  EXPECT_TRUE(exchange(client, address.address));
}

TEST(LoopbackTest, ClosingTheStreamFreesTheSession) {
  TestServer server(1);
  TestClient client(2);
  auto stream = client.connect(server.address(), client.open_request());
  ASSERT_TRUE(client.expect<Opened>());
  EXPECT_EQ(server.service->stats().sessions, 1);
  stream.reset();
  EXPECT_FALSE(client.next(50ms));  // no event follows
  const TimePoint until = client.clock.now() + 10s;
  while (server.service->stats().sessions != 0 && client.clock.now() < until)
    std::this_thread::yield();
  EXPECT_EQ(server.service->stats().sessions, 0);
}

TEST(LoopbackTest, ASpanComesAndGoes) {
  TestServer server(1);
  server.server->host(nullptr, nullptr);
  TestClient client(2);
  auto stream = client.connect(server.address(), client.open_request());
  EXPECT_EQ(client.expect_closed().code, Code::kUnavailable);
  EXPECT_TRUE(exchange(client, server.server->address()));  // membership works without
  server.server->host(server.service.get(), &server.worker);
  stream = client.connect(server.address(), client.open_request());
  EXPECT_TRUE(client.expect<Opened>());
}

TEST(LoopbackTest, APortInUseIsSaid) {
  TestServer server(1);
  Members members;
  SystemClock clock;
  GrpcServerOptions options;
  options.listen = server.server->address();
  const auto second = GrpcServer::start(rpc_options(2), options, members, clock);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_THAT(second.error().message, testing::HasSubstr("in use"));
  options.listen = "192.0.2.1:0";  // TEST-NET: nobody's
  const auto elsewhere = GrpcServer::start(rpc_options(2), options, members, clock);
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().code, Code::kInvalidArgument) << elsewhere.error().text();
}

TEST(LoopbackTest, ManySessionsAtOnce) {
  constexpr uint64_t kSessions = 60;
  TestServer server(1);
  TestClient client(2);
  std::vector<std::unique_ptr<SpanStream>> streams;
  for (uint64_t i = 0; i < kSessions; i++)
    streams.push_back(client.connect(server.address(), client.open_request(), i));
  for (uint64_t i = 0; i < kSessions; i++) ASSERT_TRUE(client.expect<Opened>());
  for (uint64_t i = 0; i < kSessions; i++)
    streams[i]->send(step_request(1, 0, 1, static_cast<float>(i)));
  for (uint64_t i = 0; i < kSessions; i++) {
    const auto event = client.next();
    ASSERT_TRUE(event);
    const auto& output = std::get<StepOutput>(std::get<ServerMessage>(event->what));
    EXPECT_EQ(first_value(output.output), static_cast<float>(event->stream + kTestBlocks));
  }
}

// What a call holds, its channel too, must not end on a thread of gRPC's after everybody thinks
// that all is over: the program may be ending then.
TEST(LoopbackTest, LinksOutliveWhatTheirCallsHold) {
  struct Flags {
    std::atomic<bool> links_gone{false}, destroyed{false};
  };
  struct SlowToGo {
    std::shared_ptr<Flags> flags;
    ~SlowToGo() {
      const SystemClock clock;
      const TimePoint until = clock.now() + 100ms;
      while (!flags->links_gone && clock.now() < until) std::this_thread::yield();
      flags->destroyed = true;
    }
  };
  TestServer server(1);
  const SystemClock clock;
  auto links = std::make_unique<Links>(rpc_options(2), clock);
  GrpcMember member(*links);
  const auto flags = std::make_shared<Flags>();
  std::promise<void> answered;
  member.introduce(
      server.server->address(), {Digest{}, ""}, soon(),
      [held = std::make_shared<SlowToGo>(flags), &answered](const auto&) { answered.set_value(); });
  ASSERT_EQ(answered.get_future().wait_for(20s), std::future_status::ready);
  links.reset();
  const bool destroyed_before = flags->destroyed;
  flags->links_gone = true;
  EXPECT_TRUE(destroyed_before);
}

TEST(LoopbackTest, LinksAreBounded) {
  TestServer server(1);
  TestClient client(2);
  for (size_t i = 0; i < 2 * kMaxLinks; i++)  // nobody has these keys
    wait_for<Duration>([&](auto done) {
      PeerId id;
      id.bytes[0] = static_cast<uint8_t>(i);
      id.bytes[1] = static_cast<uint8_t>(1 + i / 256);
      client.member.ping({id, "127.0.0.1:1"}, soon(), done);
    });
  EXPECT_TRUE(exchange(client, server.server->address()));
}

}  // namespace
}  // namespace meadow::rpc
