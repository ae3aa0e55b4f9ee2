// Peers of the swarm that send what they should not: a typed error to them, nothing to the others.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "meadow/v1/member.grpc.pb.h"
#include "meadow/v1/session.grpc.pb.h"
#include "rpc/admission.h"
#include "rpc/convert.h"
#include "rpc/status.h"
#include "rpc/test_peers.h"
#include "rpc/tls.h"

namespace meadow::rpc {
namespace {

using namespace swarm;

constexpr auto kPatience = std::chrono::seconds(30);

// A peer that knows the secret and writes any message by hand. Blocking calls.
struct Hostile {
  Hostile(uint8_t number, const std::string& address, bool prove = true) : me(identity(number)) {
    grpc::ChannelArguments args;
    args.SetMaxSendMessageSize(-1);
    channel = grpc::CreateCustomChannel(
        address, channel_credentials(me, std::make_shared<KeyCheck>(PeerId{})), args);
    member = pb::Member::NewStub(channel);
    span = pb::Span::NewStub(channel);
    if (prove) admit();
  }
  static void patient(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
  }
  void admit() {
    Handshake h;
    h.client_key = me.public_key();
    h.client_nonce = random_id<Nonce>();
    pb::HelloRequest hello;
    hello.set_protocol(kProtocol);
    hello.set_nonce(wire_bytes(h.client_nonce));
    pb::HelloReply reply;
    grpc::ClientContext first, second;
    patient(first);
    patient(second);
    ASSERT_TRUE(member->Hello(&first, hello, &reply).ok());
    h.server_key = *fixed<PublicKey>(reply.key(), "key");
    h.server_nonce = *fixed<Nonce>(reply.nonce(), "nonce");
    pb::ProveRequest prove;
    prove.set_nonce(reply.nonce());
    prove.set_proof(
        wire_bytes(admission_proof(SwarmKey{"test", "s"}.admission(), Role::kClient, h)));
    pb::ProveReply proved;
    ASSERT_TRUE(member->Prove(&second, prove, &proved).ok());
  }
  // Sends these messages on one stream; the status it ends with.
  grpc::Status stream(const std::vector<pb::ClientMessage>& messages) {
    grpc::ClientContext context;
    patient(context);
    auto call = span->Session(&context);
    for (const auto& message : messages)
      if (!call->Write(message)) break;
    pb::ServerMessage answer;
    while (call->Read(&answer)) {
    }
    return call->Finish();
  }
  grpc::Status push(const pb::PushRequest& request) {
    grpc::ClientContext context;
    patient(context);
    pb::PushReply reply;
    return span->Push(&context, request, &reply);
  }

  Identity me;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::Member::Stub> member;
  std::unique_ptr<pb::Span::Stub> span;
};

pb::ClientMessage wire(ClientMessage message) {
  pb::ClientMessage out;
  to_proto(std::move(message), &out);
  return out;
}

int64_t resident_mib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) / 1024;
  return 0;
}

struct HostileTest : testing::Test {
  TestServer server{1};
  TestClient honest{2};
  std::unique_ptr<SpanStream> stream;
  uint64_t steps = 0;

  void SetUp() override {
    stream = honest.connect(server.address(), honest.open_request());
    ASSERT_TRUE(honest.expect<Opened>());
    check_honest();
  }
  // The honest session is served as if nothing were.
  void check_honest() {
    send_step();
    expect_output();
  }
  void send_step() {
    steps++;
    stream->send(step_request(steps, static_cast<int64_t>(steps) - 1, 1, 3));
  }
  void expect_output() {
    const auto output = honest.expect<StepOutput>();
    ASSERT_TRUE(output);
    EXPECT_EQ(output->step, steps);
    EXPECT_EQ(first_value(output->output), 3 + kTestBlocks);
  }
};

TEST_F(HostileTest, NothingWithoutAProof) {
  Hostile stranger(5, server.server->address(), false);
  EXPECT_EQ(stranger.stream({wire(honest.open_request())}).error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(stranger.push({}).error_code(), grpc::UNAUTHENTICATED);
  const auto calls = [&](auto method, auto request, auto reply) {
    grpc::ClientContext context;
    Hostile::patient(context);
    return ((*stranger.member).*method)(&context, request, &reply).error_code();
  };
  EXPECT_EQ(calls(&pb::Member::Stub::Exchange, pb::ExchangeRequest(), pb::ExchangeReply()),
            grpc::UNAUTHENTICATED);
  EXPECT_EQ(calls(&pb::Member::Stub::Introduce, pb::IntroduceRequest(), pb::IntroduceReply()),
            grpc::UNAUTHENTICATED);
  EXPECT_EQ(calls(&pb::Member::Stub::Ping, pb::PingRequest(), pb::PingReply()),
            grpc::UNAUTHENTICATED);
  // Proofs made up, nonces too short, another protocol.
  pb::ProveRequest prove;
  prove.set_nonce(std::string(32, 'n'));
  prove.set_proof(std::string(32, 'p'));
  EXPECT_EQ(calls(&pb::Member::Stub::Prove, prove, pb::ProveReply()), grpc::PERMISSION_DENIED);
  prove.set_nonce("short");
  EXPECT_EQ(calls(&pb::Member::Stub::Prove, prove, pb::ProveReply()), grpc::INVALID_ARGUMENT);
  pb::HelloRequest hello;
  hello.set_protocol(kProtocol);
  EXPECT_EQ(calls(&pb::Member::Stub::Hello, hello, pb::HelloReply()), grpc::INVALID_ARGUMENT);
  hello.set_protocol(kProtocol + 1);
  EXPECT_EQ(calls(&pb::Member::Stub::Hello, hello, pb::HelloReply()), grpc::UNIMPLEMENTED);
  EXPECT_TRUE(server.members.callers.empty());
  check_honest();
}

TEST_F(HostileTest, MalformedMessages) {
  Hostile peer(5, server.server->address());
  const pb::ClientMessage open = wire(honest.open_request());
  pb::ClientMessage bad_codec = open;
  bad_codec.mutable_open()->set_codec(static_cast<pb::Codec>(77));
  EXPECT_EQ(peer.stream({bad_codec}).error_code(), grpc::UNIMPLEMENTED);
  pb::ClientMessage bad_id = open;
  bad_id.mutable_open()->set_session("x");
  EXPECT_EQ(peer.stream({bad_id}).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(peer.stream({pb::ClientMessage()}).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(peer.stream({wire(step_request(1, 0, 1, 1))}).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(peer.stream({open, open}).error_code(), grpc::INVALID_ARGUMENT);  // a duplicate open
  pb::ClientMessage negative = wire(step_request(1, 0, 1, 1));
  negative.mutable_step()->mutable_input()->set_count(-1);
  EXPECT_EQ(peer.stream({wire(honest.open_request()), negative}).error_code(),
            grpc::INVALID_ARGUMENT);
  pb::PushRequest push;
  push.set_session(std::string(16, 's'));
  EXPECT_EQ(peer.push(push).error_code(), grpc::INVALID_ARGUMENT);  // no input
  push.mutable_input()->set_count(1);
  push.mutable_input()->set_values(std::string(kWidth * 4, '\0'));
  EXPECT_EQ(peer.push(push).error_code(), grpc::NOT_FOUND);  // no such session
  EXPECT_GE(server.server->stats().malformed, 5);
  check_honest();
}

// Garbage instead of protobuf.
TEST_F(HostileTest, BytesThatAreNoMessage) {
  Hostile peer(5, server.server->address());
  grpc::ClientContext context;
  Hostile::patient(context);
  const grpc::Slice garbage(std::string(1000, '\xff'));
  const grpc::ByteBuffer request(&garbage, 1);
  grpc::ByteBuffer reply;
  std::promise<grpc::Status> status;
  grpc::GenericStub(peer.channel)
      .UnaryCall(&context, "/meadow.v1.Span/Push", {}, &request, &reply,
                 [&](grpc::Status s) { status.set_value(std::move(s)); });
  EXPECT_FALSE(status.get_future().get().ok());
  check_honest();
}

// 100 times the limit: refused, and what it cost in memory meanwhile is bounded.
TEST_F(HostileTest, HugeMessages) {
  Hostile peer(5, server.server->address());
  pb::ClientMessage huge = wire(step_request(1, 0, 1, 1));
  huge.mutable_step()->mutable_input()->set_values(
      std::string(size_t{100} * static_cast<size_t>(kMaxStepBytes), 'x'));
  const grpc::Status status = peer.stream({wire(honest.open_request()), huge});
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED) << status.error_message();
  check_honest();
  pb::PushRequest push;
  push.mutable_input()->mutable_values()->swap(
      *huge.mutable_step()->mutable_input()->mutable_values());
  EXPECT_EQ(peer.push(push).error_code(), grpc::RESOURCE_EXHAUSTED);
  check_honest();
}

// Steps sent without waiting for answers while the server computes: read on only as they are done.
TEST_F(HostileTest, AFloodIsNotReadIntoMemory) {
  Hostile peer(6, server.server->address());
  server.compute.held = true;
  send_step();
  pb::ClientMessage step = wire(step_request(1, 0, 1, 1));
  step.mutable_step()->mutable_input()->set_values(
      std::string(static_cast<size_t>(kMaxStepBytes), 'x'));
  const int64_t before = resident_mib();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(3));
  auto call = peer.span->Session(&context);
  call->Write(wire(honest.open_request()));
  int written = 0;  // until the deadline ends the write that is not taken
  while (written < 200 && call->Write(step)) written++;
  EXPECT_LT(written, 60);
  EXPECT_LT(resident_mib() - before, 400);
  EXPECT_EQ(call->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
  server.compute.held = false;
  expect_output();
  check_honest();
}

TEST_F(HostileTest, TooManyStreams) {
  server.stop();
  GrpcServerOptions options;
  options.max_streams = 3;
  TestServer small(7, rpc_options(7), options);
  std::vector<std::unique_ptr<SpanStream>> streams;
  for (uint64_t i = 0; i < 3; i++) {
    streams.push_back(honest.connect(small.address(), honest.open_request(), 10 + i));
  }
  int opened = 0;
  while (opened < 3) {
    const auto event = honest.next();
    ASSERT_TRUE(event);
    if (event->stream >= 10) opened++;
  }
  auto fourth = honest.connect(small.address(), honest.open_request(), 20);
  EXPECT_EQ(honest.expect_closed().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace meadow::rpc
