#include "swarm/blocking_inbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace meadow::swarm {
namespace {

StreamEvent output_of(size_t bytes) { return {1, StepOutput{.output = {0, 1, Bytes(bytes)}}}; }

TEST(BlockingInbox, OrderDeadlineAndCancel) {
  const SystemClock clock;
  BlockingInbox inbox(clock);
  EXPECT_FALSE(inbox.wait(clock.now(), nullptr));
  inbox.post({1, Beat{1, 7}});
  inbox.post({2, StreamClosed{{Code::kUnavailable, "gone"}}});
  EXPECT_EQ(inbox.wait(clock.now(), nullptr)->stream, 1u);
  EXPECT_EQ(inbox.wait(clock.now(), nullptr)->stream, 2u);
  CancelToken cancel;
  cancel.cancel();
  EXPECT_FALSE(inbox.wait(TimePoint::max(), &cancel));
  std::thread poster([&] { inbox.post({3, Beat{1, 8}}); });
  EXPECT_EQ(inbox.wait(clock.now() + Duration(60s), nullptr)->stream, 3u);
  poster.join();
}

TEST(BlockingInbox, AFloodIsBoundedAndEndsOfStreamsStillArrive) {
  const SystemClock clock;
  BlockingInbox inbox(clock);
  for (size_t i = 0; i < 2 * BlockingInbox::kMaxEvents; i++) inbox.post({1, Beat{1, i}});
  inbox.post({1, StreamClosed{{Code::kUnavailable, "gone"}}});
  size_t beats = 0;
  std::optional<StreamEvent> event;
  while ((event = inbox.wait(clock.now(), nullptr)) &&
         !std::holds_alternative<StreamClosed>(event->what))
    beats++;
  EXPECT_TRUE(event);
  EXPECT_EQ(beats, BlockingInbox::kMaxEvents);
}

TEST(BlockingInbox, PayloadIsBounded) {
  const SystemClock clock;
  BlockingInbox inbox(clock);
  const size_t half = BlockingInbox::kMaxBytes / 2;
  for (int i = 0; i < 5; i++) inbox.post(output_of(half));
  int arrived = 0;
  while (inbox.wait(clock.now(), nullptr)) arrived++;
  EXPECT_EQ(arrived, 2);
  inbox.post(output_of(half));  // room again
  EXPECT_TRUE(inbox.wait(clock.now(), nullptr));
}

}  // namespace
}  // namespace meadow::swarm
