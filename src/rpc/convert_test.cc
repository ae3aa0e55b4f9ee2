#include "rpc/convert.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "rpc/status.h"
#include "swarm/lease.h"

namespace meadow::rpc {
namespace {

using namespace swarm;

template <class Id>
Id random_id(Rng& rng) {
  Id id;
  rng.fill(id.bytes);
  return id;
}

HiddenStates hidden(Rng& rng, int64_t first, int64_t count, int64_t bytes_each) {
  HiddenStates h{first, count, Bytes(static_cast<size_t>(count * bytes_each))};
  rng.fill(h.bytes);
  return h;
}

NextHop next_hop(Rng& rng) {
  return {{random_id<PeerId>(rng), "127.0.0.1:7000"}, random_id<SessionId>(rng)};
}

void expect_same(const HiddenStates& a, const HiddenStates& b) {
  EXPECT_EQ(a.first_position, b.first_position);
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.bytes, b.bytes);
}

// Through the bytes of the wire.
template <class Wire, class Message>
auto round_trip(Message message) {
  Wire wire, read;
  to_proto(std::move(message), &wire);
  EXPECT_TRUE(read.ParseFromString(wire.SerializeAsString()));
  return from_proto(read);
}

TEST(Convert, OpenRequest) {
  Rng rng(1);
  for (const bool first : {false, true}) {
    OpenRequest open;
    open.session = random_id<SessionId>(rng);
    open.epoch = 7;
    open.blocks = {3, 9};
    open.max_tokens = 2048;
    open.codec = Codec::kF16;
    open.fingerprint = random_id<Digest>(rng);
    open.numerics = 1;
    if (!first) open.previous = random_id<PeerId>(rng);
    if (first) open.next = next_hop(rng);
    const auto got = round_trip<pb::ClientMessage>(ClientMessage(open));
    ASSERT_TRUE(got) << got.error().text();
    const auto& o = std::get<OpenRequest>(*got);
    EXPECT_EQ(o.session, open.session);
    EXPECT_EQ(o.epoch, 7u);
    EXPECT_EQ(o.blocks, open.blocks);
    EXPECT_EQ(o.max_tokens, 2048);
    EXPECT_EQ(o.codec, Codec::kF16);
    EXPECT_EQ(o.fingerprint, open.fingerprint);
    EXPECT_EQ(o.numerics, 1u);
    EXPECT_EQ(o.previous, open.previous);
    EXPECT_EQ(o.next, open.next);
  }
}

TEST(Convert, OtherClientMessages) {
  Rng rng(2);
  const StepRequest step{4, uint64_t{1} << 40, hidden(rng, 100, 3, 64), false, 101};
  auto got = round_trip<pb::ClientMessage>(ClientMessage(step));
  ASSERT_TRUE(got);
  const auto& s = std::get<StepRequest>(*got);
  EXPECT_EQ(s.epoch, 4u);
  EXPECT_EQ(s.step, step.step);
  expect_same(s.input, step.input);
  EXPECT_FALSE(s.push);
  EXPECT_EQ(s.outputs_from, 101);

  const RouteUpdate route{9, random_id<PeerId>(rng), next_hop(rng)};
  got = round_trip<pb::ClientMessage>(ClientMessage(route));
  ASSERT_TRUE(got);
  EXPECT_EQ(std::get<RouteUpdate>(*got).epoch, 9u);
  EXPECT_EQ(std::get<RouteUpdate>(*got).previous, route.previous);
  EXPECT_EQ(std::get<RouteUpdate>(*got).next, route.next);
  got = round_trip<pb::ClientMessage>(ClientMessage(OutputAck{55}));
  EXPECT_EQ(std::get<OutputAck>(*got).position, 55);
  got = round_trip<pb::ClientMessage>(ClientMessage(ResendRequest{66}));
  EXPECT_EQ(std::get<ResendRequest>(*got).from, 66);
}

TEST(Convert, ServerMessages) {
  Rng rng(3);
  EXPECT_TRUE(
      std::holds_alternative<Opened>(*round_trip<pb::ServerMessage>(ServerMessage(Opened{}))));
  for (const int64_t count : {0, 1, 5}) {
    const StepOutput output{2, 3, hidden(rng, 10, count, 32), 10 + count, 1234, 5678};
    const auto got = round_trip<pb::ServerMessage>(ServerMessage(output));
    ASSERT_TRUE(got) << got.error().text();
    const auto& o = std::get<StepOutput>(*got);
    expect_same(o.output, output.output);
    EXPECT_EQ(o.position, output.position);
    EXPECT_EQ(o.compute_us, 1234u);
    EXPECT_EQ(o.wait_us, 5678u);
  }
  const auto beat = round_trip<pb::ServerMessage>(ServerMessage(Beat{1, 2}));
  EXPECT_EQ(std::get<Beat>(*beat).step, 2u);
  for (int code = 0; code <= static_cast<int>(Code::kInternal); code++) {
    const Error error{static_cast<Code>(code), "why"};
    const auto failed = round_trip<pb::ServerMessage>(ServerMessage(PushFailed{1, 2, error}));
    EXPECT_EQ(std::get<PushFailed>(*failed).error.code, error.code);
    const auto refused = round_trip<pb::ServerMessage>(ServerMessage(StepRefused{1, 2, error}));
    EXPECT_EQ(std::get<StepRefused>(*refused).error.code, error.code);
    EXPECT_EQ(std::get<StepRefused>(*refused).error.message, "why");
  }
}

TEST(Convert, Push) {
  Rng rng(4);
  const PushRequest push{random_id<SessionId>(rng), 1, 2, hidden(rng, 0, 4, 16), 3};
  const auto got = round_trip<pb::PushRequest>(PushRequest(push));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->session, push.session);
  expect_same(got->input, push.input);
  EXPECT_EQ(got->outputs_from, 3);
}

TEST(Convert, Membership) {
  Rng rng(5);
  ExchangeRequest request;
  request.known = {{random_id<PeerId>(rng), 17}};
  request.news = {{{Bytes{1, 2, 3}, random_id<Signature>(rng)}, 250}};
  request.address = "[::1]:80";
  const auto r = round_trip<pb::ExchangeRequest>(request);
  ASSERT_TRUE(r) << r.error().text();
  EXPECT_EQ(r->known[0].peer, request.known[0].peer);
  EXPECT_EQ(r->known[0].sequence, 17u);
  EXPECT_EQ(r->news[0].lease.body, request.news[0].lease.body);
  EXPECT_EQ(r->news[0].lease.signature, request.news[0].lease.signature);
  EXPECT_EQ(r->news[0].age_ms, 250u);
  EXPECT_EQ(r->address, "[::1]:80");

  ExchangeReply reply{request.news, {random_id<PeerId>(rng)}, {"host:1", "127.0.0.1:2"}};
  const auto p = round_trip<pb::ExchangeReply>(reply);
  ASSERT_TRUE(p) << p.error().text();
  EXPECT_EQ(p->wanted, reply.wanted);
  EXPECT_EQ(p->addresses, reply.addresses);

  const IntroduceRequest ask{random_id<Digest>(rng), ""};
  EXPECT_EQ(round_trip<pb::IntroduceRequest>(ask)->rendezvous, ask.rendezvous);
  EXPECT_EQ(round_trip<pb::IntroduceReply>(IntroduceReply{{"a:1"}})->addresses[0], "a:1");
}

// A gossip list larger than a message travels in part; the receiver takes what comes.
TEST(Convert, NewsAreCutToOneMessage) {
  ExchangeReply reply;
  for (int i = 0; i < 100; i++) reply.news.push_back({{Bytes(kMaxLeaseBytes), {}}, 0});
  pb::ExchangeReply wire;
  to_proto(reply, &wire);
  EXPECT_LE(wire.ByteSizeLong(), size_t{kMaxMessageBytes});
  EXPECT_GT(wire.news_size(), 10);
  EXPECT_TRUE(from_proto(wire));
}

// ---- what is refused ---------------------------------------------------------------------------

pb::ClientMessage good_open() {
  Rng rng(6);
  OpenRequest open;
  open.session = random_id<SessionId>(rng);
  open.blocks = {0, 1};
  open.max_tokens = 1;
  open.next = next_hop(rng);
  pb::ClientMessage wire;
  to_proto(ClientMessage(open), &wire);
  return wire;
}

TEST(ConvertRefuses, OpenRequests) {
  ASSERT_TRUE(from_proto(good_open()));
  const std::vector<std::function<void(pb::OpenRequest&)>> spoilers = {
      [](auto& o) { o.set_session("short"); },
      [](auto& o) { o.clear_blocks(); },
      [](auto& o) { o.mutable_blocks()->set_first(-1); },
      [](auto& o) { o.mutable_blocks()->set_last(0); },
      [](auto& o) { o.mutable_blocks()->set_last(kMaxBlocks + 1); },
      [](auto& o) { o.set_max_tokens(-1); },
      [](auto& o) { o.set_max_tokens(int64_t{1} << 40); },
      [](auto& o) { o.clear_codec(); },
      [](auto& o) { o.set_codec(static_cast<pb::Codec>(4)); },
      [](auto& o) { o.set_fingerprint(std::string(31, 'x')); },
      [](auto& o) { o.set_previous(std::string(33, 'x')); },
      [](auto& o) { o.mutable_next()->clear_server(); },
      [](auto& o) { o.mutable_next()->clear_session(); },
      [](auto& o) { o.mutable_next()->mutable_server()->set_address("unix:/tmp/x"); },
      [](auto& o) { o.mutable_next()->mutable_server()->set_address("host:0"); },
      [](auto& o) { o.mutable_next()->mutable_server()->set_address(std::string(9999, 'a')); },
  };
  for (size_t i = 0; i < spoilers.size(); i++) {
    pb::ClientMessage wire = good_open();
    spoilers[i](*wire.mutable_open());
    EXPECT_FALSE(from_proto(wire)) << "spoiler " << i;
  }
}

TEST(ConvertRefuses, Steps) {
  Rng rng(7);
  const auto wire_of = [&] {
    pb::ClientMessage wire;
    to_proto(ClientMessage(StepRequest{1, 1, hidden(rng, 0, 2, 8), true, 0}), &wire);
    return wire;
  };
  ASSERT_TRUE(from_proto(wire_of()));
  const std::vector<std::function<void(pb::HiddenStates&)>> spoilers = {
      [](auto& h) { h.set_count(0); },
      [](auto& h) { h.set_count(-2); },
      [](auto& h) { h.set_count(std::numeric_limits<int64_t>::max()); },
      [](auto& h) { h.set_first_position(-1); },
      [](auto& h) { h.set_first_position(std::numeric_limits<int64_t>::max()); },
      [](auto& h) { h.clear_values(); },
      [](auto& h) { h.set_values(std::string(kMaxStepBytes + 1, 'x')); },
  };
  for (size_t i = 0; i < spoilers.size(); i++) {
    pb::ClientMessage wire = wire_of();
    spoilers[i](*wire.mutable_step()->mutable_input());
    EXPECT_FALSE(from_proto(wire)) << "spoiler " << i;
    pb::PushRequest push;
    push.set_session(std::string(16, 's'));
    *push.mutable_input() = wire.step().input();
    EXPECT_FALSE(from_proto(push)) << "spoiler " << i;
  }
  EXPECT_FALSE(from_proto(pb::ClientMessage()));
  EXPECT_FALSE(from_proto(pb::ServerMessage()));
}

TEST(ConvertRefuses, UnknownErrorCodes) {
  pb::ServerMessage wire;
  wire.mutable_refused()->mutable_error()->set_message("x");
  EXPECT_FALSE(from_proto(wire));
  wire.mutable_refused()->mutable_error()->set_code(static_cast<pb::Code>(99));
  EXPECT_FALSE(from_proto(wire));
}

TEST(ConvertRefuses, Membership) {
  pb::ExchangeRequest request;
  request.add_known()->set_peer("short");
  EXPECT_FALSE(from_proto(request));
  request.Clear();
  for (size_t i = 0; i <= kMaxLeasesPerExchange; i++)
    request.add_news()->set_signature(std::string(64, 's'));
  EXPECT_FALSE(from_proto(request));
  request.Clear();
  request.set_address("no port");
  EXPECT_FALSE(from_proto(request));
  pb::IntroduceReply reply;
  for (size_t i = 0; i <= kMaxIntroductions; i++) reply.add_addresses("a:1");
  EXPECT_FALSE(from_proto(reply));
}

// ---- statuses ----------------------------------------------------------------------------------

TEST(Status, EveryCodeSurvives) {
  for (int code = 0; code <= static_cast<int>(Code::kInternal); code++) {
    const Error error{static_cast<Code>(code), "expected 1, got 2"};
    const Error back = from_status(to_status(error));
    EXPECT_EQ(back.code, error.code);
    EXPECT_EQ(back.message, error.message);
  }
  EXPECT_EQ(from_status({grpc::UNAUTHENTICATED, ""}).code, Code::kPermissionDenied);
  EXPECT_EQ(from_status({grpc::ABORTED, "x"}).code, Code::kInternal);
}

TEST(Status, TextIsCutAndCleaned) {
  EXPECT_EQ(clean_text("a\xff"
                       "b\xc3"),
            "a?b?");
  EXPECT_EQ(clean_text("grüße → 🙂"), "grüße → 🙂");
  EXPECT_EQ(clean_text("\xed\xa0\x80"), "???");  // a surrogate
  EXPECT_LE(clean_text(std::string(5000, 'x')).size(), kMaxErrorText);
}

}  // namespace
}  // namespace meadow::rpc
