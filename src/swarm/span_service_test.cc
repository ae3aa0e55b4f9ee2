// What a server answers to strangers, to hostile messages and to its own client's mistakes: a typed
// error to the sender, other sessions untouched, memory bounded.
#include "swarm/span_service.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <map>

#include "base/identity.h"
#include "swarm/hidden_codec.h"

namespace meadow::swarm {
namespace {

constexpr int64_t kWidth = 4;

// Adds the position to every value.
class AddPosition final : public SpanCompute {
 public:
  Result<void> open(SessionId id, BlockRange, int64_t tokens) override {
    if (tokens > 64) return fail(Code::kResourceExhausted, "64 positions are free");
    lengths[id] = 0;
    return {};
  }
  void close(SessionId id) override { lengths.erase(id); }
  Result<std::vector<float>> forward(SessionId id, int64_t first, std::span<const float> x,
                                     const CancelToken&) override {
    EXPECT_LE(first, lengths.at(id));
    std::vector<float> y(x.begin(), x.end());
    for (size_t i = 0; i < y.size(); i++) y[i] += static_cast<float>(first + i / kWidth);
    lengths[id] = first + static_cast<int64_t>(x.size()) / kWidth;
    computed++;
    return y;
  }
  std::map<SessionId, int64_t> lengths;
  int computed = 0;
};

struct ManualWorker final : Worker {
  void post(std::function<void()> task) override { tasks.push_back(std::move(task)); }
  void run() {
    while (!tasks.empty()) {
      auto task = std::move(tasks.front());
      tasks.pop_front();
      task();
    }
  }
  std::deque<std::function<void()>> tasks;
};

struct RecordingPush final : PushPort {
  void push(const PeerAddress& to, PushRequest request, Deadline,
            std::function<void(Result<void>)> done) override {
    sent.emplace_back(to, std::move(request));
    answers.push_back(std::move(done));
  }
  std::vector<std::pair<PeerAddress, PushRequest>> sent;
  std::vector<std::function<void(Result<void>)>> answers;
};

struct RecordingSink final : ClientSink {
  void send(ServerMessage message) override { messages.push_back(std::move(message)); }
  void close(Error e) override { closed = std::move(e); }
  template <class T>
  std::vector<T> all() const {
    std::vector<T> out;
    for (const auto& m : messages)
      if (const T* t = std::get_if<T>(&m)) out.push_back(*t);
    return out;
  }
  std::vector<ServerMessage> messages;
  std::optional<Error> closed;
};

PeerId peer(uint8_t n) {
  PeerId id;
  id.bytes[0] = n;
  return id;
}
SessionId session(uint8_t n) {
  SessionId id;
  id.bytes[0] = n;
  return id;
}

class SpanServiceTest : public testing::Test {
 protected:
  OpenRequest request(uint8_t n) const {
    return {.session = session(n),
            .epoch = 1,
            .blocks = {2, 6},
            .max_tokens = 32,
            .fingerprint = options.fingerprint,
            .numerics = 1,
            .previous = peer(7)};
  }
  uint64_t open(OpenRequest r, std::shared_ptr<RecordingSink> sink) {
    const uint64_t stream = service.open(peer(1), std::move(r), std::move(sink));
    worker.run();
    return stream;
  }
  static HiddenStates states(int64_t first, int64_t count, float value = 1.0f) {
    return {first, count,
            encode(std::vector<float>(static_cast<size_t>(count * kWidth), value), Codec::kF32)
                .value()};
  }
  void step(uint64_t stream, uint64_t number, HiddenStates input, uint32_t epoch = 1,
            bool pass_on = true) {
    const int64_t from = input.first_position;
    service.receive(stream, StepRequest{epoch, number, std::move(input), pass_on, from});
    worker.run();
  }
  std::optional<Error> refusal(OpenRequest r) {
    auto sink = std::make_shared<RecordingSink>();
    open(std::move(r), sink);
    EXPECT_TRUE(sink->messages.empty() || !sink->closed);
    return sink->closed;
  }

  SpanServiceOptions options{.blocks = {2, 8},
                             .n_embd = kWidth,
                             .max_context = 100,
                             .fingerprint = sha256("model"),
                             .numerics = 1,
                             .max_sessions = 3,
                             .max_kept_outputs = 10 * kWidth * 4};
  AddPosition compute;
  ManualWorker worker;
  RecordingPush push;
  ManualClock clock;
  SpanService service{options, compute, worker, push, clock};
};

TEST_F(SpanServiceTest, OpeningIsCheckedWholly) {
  EXPECT_FALSE(refusal(request(1)));
  EXPECT_EQ(refusal(request(1))->code, Code::kInvalidArgument);  // id in use
  auto r = request(2);
  r.fingerprint = sha256("another");
  EXPECT_EQ(refusal(r)->code, Code::kFailedPrecondition);
  r = request(2);
  r.numerics = 2;
  EXPECT_EQ(refusal(r)->code, Code::kFailedPrecondition);
  for (BlockRange blocks : {BlockRange{1, 4}, {4, 9}, {5, 5}, {6, 4}, {-1, 3}}) {
    r = request(2);
    r.blocks = blocks;
    EXPECT_EQ(refusal(r)->code, Code::kNotFound);
  }
  for (int64_t tokens : {int64_t{0}, int64_t{-5}, int64_t{101}, INT64_MAX}) {
    r = request(2);
    r.max_tokens = tokens;
    EXPECT_EQ(refusal(r)->code, Code::kInvalidArgument);
  }
  r = request(2);
  r.max_tokens = 65;
  EXPECT_EQ(refusal(r)->code, Code::kResourceExhausted);  // by the compute
  r = request(2);
  r.codec = static_cast<Codec>(9);
  EXPECT_EQ(refusal(r)->code, Code::kUnsupported);
  EXPECT_FALSE(refusal(request(3)));
  EXPECT_FALSE(refusal(request(4)));
  EXPECT_EQ(refusal(request(5))->code, Code::kResourceExhausted);  // max_sessions
  EXPECT_EQ(service.stats().sessions, 3);
  service.drain();
  EXPECT_EQ(refusal(request(6))->code, Code::kUnavailable);
}

TEST_F(SpanServiceTest, HostileStepsAreRefusedAndTouchNothing) {
  auto sink = std::make_shared<RecordingSink>(), other = std::make_shared<RecordingSink>();
  const uint64_t a = open(request(1), sink), b = open(request(2), other);
  step(a, 1, states(0, 3));
  const int computed = compute.computed;

  HiddenStates bad = states(3, 1);
  bad.bytes.pop_back();
  step(a, 2, bad);  // wrong shape
  bad = states(3, 1);
  bad.count = 2;
  step(a, 3, bad);  // says more than it carries
  bad = states(3, 1);
  bad.count = INT64_MAX;
  step(a, 4, bad);
  bad = states(3, 1);
  bad.first_position = -1;
  step(a, 5, bad);
  bad = {3, 0, {}};
  step(a, 6, bad);            // nothing
  step(a, 7, states(4, 1));   // a hole
  step(a, 8, states(3, 30));  // beyond max_tokens
  bad = {3, 100, Bytes(static_cast<size_t>(kMaxStepBytes) + 1600)};
  step(a, 9, bad);  // too large
  EXPECT_EQ(compute.computed, computed);
  EXPECT_EQ(sink->all<StepRefused>().size(), 8u);
  for (const StepRefused& r : sink->all<StepRefused>())
    EXPECT_EQ(r.error.code, r.step == 7 ? Code::kFailedPrecondition : Code::kInvalidArgument);

  HiddenStates nan = states(3, 1);
  const float value = std::nanf("");
  std::memcpy(nan.bytes.data() + 4, &value, 4);
  step(a, 10, nan);
  EXPECT_EQ(sink->all<StepRefused>().back().error.code, Code::kInvalidArgument);
  EXPECT_EQ(compute.computed, computed);

  step(a, 11, states(3, 1));  // the session goes on as if nothing had been
  EXPECT_EQ(sink->all<StepOutput>().back().step, 11u);
  EXPECT_EQ(sink->all<StepOutput>().back().position, 4);
  step(b, 1, states(0, 1));
  EXPECT_EQ(other->all<StepOutput>().size(), 1u);
  EXPECT_TRUE(other->all<StepRefused>().empty());
}

TEST_F(SpanServiceTest, OnlyThePreviousServerMayPush) {
  auto sink = std::make_shared<RecordingSink>();
  open(request(1), sink);
  EXPECT_EQ(service.push(peer(7), {session(9), 1, 1, states(0, 1), 0}).error().code,
            Code::kNotFound);
  EXPECT_EQ(service.push(peer(8), {session(1), 1, 1, states(0, 1), 0}).error().code,
            Code::kPermissionDenied);
  EXPECT_EQ(service.push(PeerId{}, {session(1), 1, 1, states(0, 1), 0}).error().code,
            Code::kPermissionDenied);
  EXPECT_EQ(service.push(peer(7), {session(1), 0, 1, states(0, 1), 0}).error().code,
            Code::kFailedPrecondition);
  worker.run();
  EXPECT_EQ(compute.computed, 0);
  EXPECT_TRUE(service.push(peer(7), {session(1), 1, 1, states(0, 1), 0}));
  EXPECT_TRUE(service.push(peer(7), {session(1), 1, 1, states(0, 1), 0}));  // a duplicate
  worker.run();
  EXPECT_EQ(compute.computed, 1);
  auto closed = request(2);
  closed.previous = PeerId{};
  open(closed, std::make_shared<RecordingSink>());
  EXPECT_EQ(service.push(PeerId{}, {session(2), 1, 1, states(0, 1), 0}).error().code,
            Code::kPermissionDenied);
}

TEST_F(SpanServiceTest, DuplicatesAreAnsweredAgainAndOldOnesDropped) {
  auto sink = std::make_shared<RecordingSink>();
  const uint64_t a = open(request(1), sink);
  step(a, 5, states(0, 2));
  step(a, 5, states(0, 2));
  step(a, 4, states(0, 2));
  ASSERT_EQ(sink->all<StepOutput>().size(), 2u);
  EXPECT_EQ(sink->all<StepOutput>()[0].output.bytes, sink->all<StepOutput>()[1].output.bytes);
  EXPECT_EQ(compute.computed, 1);
  EXPECT_EQ(service.stats().duplicates, 2);
  step(a, 5, states(0, 1));  // the same number, another step
  EXPECT_EQ(sink->all<StepRefused>().size(), 1u);
}

TEST_F(SpanServiceTest, OutputsGoToTheNextServerOfTheEpoch) {
  auto sink = std::make_shared<RecordingSink>();
  auto r = request(1);
  r.next = NextHop{{peer(9), "nine"}, session(90)};
  const uint64_t a = open(r, sink);
  step(a, 1, states(0, 2, 3.0f));
  ASSERT_EQ(push.sent.size(), 1u);
  EXPECT_EQ(push.sent[0].first.id, peer(9));
  EXPECT_EQ(push.sent[0].second.session, session(90));
  EXPECT_EQ(decode(push.sent[0].second.input.bytes, Codec::kF32)->at(kWidth), 4.0f);
  EXPECT_EQ(sink->all<StepOutput>().at(0).output.count, 2);
  push.answers[0](fail(Code::kUnavailable, "gone"));
  ASSERT_EQ(sink->all<PushFailed>().size(), 1u);

  service.receive(a, RouteUpdate{2, peer(7), NextHop{{peer(10), "ten"}, session(100)}});
  step(a, 1, states(0, 2, 3.0f), 2);  // driven again after the failover
  ASSERT_EQ(push.sent.size(), 2u);
  EXPECT_EQ(push.sent[1].first.id, peer(10));
  EXPECT_EQ(push.sent[1].second.epoch, 2u);
  EXPECT_EQ(compute.computed, 1);
  step(a, 2, states(2, 1), 1);  // of the epoch that is over
  EXPECT_EQ(compute.computed, 1);
  service.receive(a, RouteUpdate{1, peer(3), std::nullopt});  // late
  step(a, 3, states(2, 1), 2);
  step(a, 4, states(3, 1), 2);
  EXPECT_EQ(push.sent.size(), 2u);  // one push after another
  push.answers[1]({});
  EXPECT_EQ(push.sent.size(), 3u);
  EXPECT_EQ(push.sent[2].second.step, 3u);
  push.answers[2]({});
  EXPECT_EQ(push.sent.size(), 4u);
}

TEST_F(SpanServiceTest, APushAheadOfItsEpochWaits) {
  auto sink = std::make_shared<RecordingSink>();
  const uint64_t a = open(request(1), sink);
  EXPECT_TRUE(service.push(peer(8), {session(1), 2, 1, states(0, 1), 0}));
  worker.run();
  EXPECT_EQ(compute.computed, 0);
  service.receive(a, RouteUpdate{2, peer(8), std::nullopt});
  worker.run();
  EXPECT_EQ(compute.computed, 1);
  EXPECT_TRUE(service.push(peer(9), {session(1), 3, 2, states(1, 1), 0}));
  service.receive(a, RouteUpdate{3, peer(8), std::nullopt});  // it was not the previous one
  worker.run();
  EXPECT_EQ(compute.computed, 1);
}

TEST_F(SpanServiceTest, OutputsAreKeptUntilAcknowledgedWithinABound) {
  auto sink = std::make_shared<RecordingSink>();
  auto r = request(1);
  r.next = NextHop{{peer(9), "nine"}, session(90)};
  const uint64_t a = open(r, sink);
  for (int64_t p = 0; p < 6; p++) step(a, static_cast<uint64_t>(p) + 1, states(p, 1));
  service.receive(a, OutputAck{2});
  service.receive(a, ResendRequest{2});
  EXPECT_EQ(sink->all<StepOutput>().back().output.first_position, 2);
  EXPECT_EQ(sink->all<StepOutput>().back().output.count, 4);
  service.receive(a, ResendRequest{1});  // forgotten
  ASSERT_EQ(sink->all<StepRefused>().size(), 1u);
  EXPECT_EQ(sink->all<StepRefused>()[0].step, 0u);
  for (int64_t p = 6; p < 20; p++) step(a, static_cast<uint64_t>(p) + 1, states(p, 1));
  service.receive(a, ResendRequest{10});  // the bound is 10 positions
  EXPECT_EQ(sink->all<StepOutput>().back().output.count, 10);
  service.receive(a, ResendRequest{9});
  EXPECT_EQ(sink->all<StepRefused>().size(), 2u);
}

TEST_F(SpanServiceTest, QueuesAreBoundedAndBeatsTellOfWork) {
  auto sink = std::make_shared<RecordingSink>();
  const uint64_t a = open(request(1), sink);
  service.tick();
  EXPECT_TRUE(sink->all<Beat>().empty());
  for (int64_t p = 0; p < 30; p++)
    service.receive(a, StepRequest{1, static_cast<uint64_t>(p) + 1, states(p, 1), true, p});
  EXPECT_EQ(sink->all<StepRefused>().front().error.code, Code::kResourceExhausted);
  service.tick();
  ASSERT_EQ(sink->all<Beat>().size(), 1u);
  EXPECT_EQ(sink->all<Beat>()[0].step, 1u);
  worker.run();
  EXPECT_EQ(compute.computed, 16);
  service.tick();
  EXPECT_EQ(sink->all<Beat>().size(), 1u);
}

TEST_F(SpanServiceTest, ClosingFreesTheCacheEvenWithWorkQueued) {
  auto sink = std::make_shared<RecordingSink>();
  const uint64_t a = open(request(1), sink);
  service.receive(a, StepRequest{1, 1, states(0, 1), true, 0});
  service.closed(a);
  worker.run();
  EXPECT_TRUE(compute.lengths.empty());
  EXPECT_EQ(compute.computed, 0);
  service.receive(a, StepRequest{1, 2, states(0, 1), true, 0});
  service.closed(a);
  worker.run();
  EXPECT_EQ(service.stats().sessions, 0);
  const uint64_t b = service.open(peer(1), request(2), sink);  // closed before it was opened
  service.closed(b);
  worker.run();
  EXPECT_TRUE(compute.lengths.empty());
}

TEST_F(SpanServiceTest, AnEndedSessionIsReported) {
  std::vector<ServedSessionReport> reports;
  options.on_session_end = [&](const ServedSessionReport& r) { reports.push_back(r); };
  SpanService reporting(options, compute, worker, push, clock);
  auto r = request(1);
  r.next = NextHop{{peer(9), "nine"}, session(90)};
  const uint64_t a = reporting.open(peer(5), r, std::make_shared<RecordingSink>());
  worker.run();
  reporting.receive(a, StepRequest{1, 1, states(0, 3), false, 3});  // a replay
  reporting.receive(a, StepRequest{1, 2, states(3, 1), true, 3});
  worker.run();
  clock.advance(7s);
  reporting.closed(a);
  reporting.closed(a);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].client, peer(5));
  EXPECT_EQ(reports[0].tokens, 4);
  EXPECT_EQ(reports[0].replayed_tokens, 3);
  EXPECT_EQ(reports[0].hidden_bytes_in, 4u * kWidth * 4);
  EXPECT_EQ(reports[0].hidden_bytes_out, 2u * kWidth * 4);  // pushed, and copied
  EXPECT_EQ(reports[0].lifetime, Duration(7s));
  EXPECT_EQ(reporting.stats().replayed_tokens, 3);
  worker.run();
}

TEST_F(SpanServiceTest, ASecondOpenEndsTheStream) {
  auto sink = std::make_shared<RecordingSink>();
  const uint64_t a = open(request(1), sink);
  service.receive(a, request(2));
  worker.run();
  ASSERT_TRUE(sink->closed);
  EXPECT_EQ(sink->closed->code, Code::kInvalidArgument);
  EXPECT_EQ(service.stats().sessions, 0);
}

}  // namespace
}  // namespace meadow::swarm
