// The small parts of membership: address book, penalties, content pins, sequence file, rendezvous.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "swarm/address_book.h"
#include "swarm/content_pins.h"
#include "swarm/penalties.h"
#include "swarm/rendezvous.h"
#include "swarm/sequence.h"

namespace meadow::swarm {
namespace {

constexpr TimePoint kStart{Duration{1'000'000'000'000}};

TEST(AddressBook, KeepsOnlyWhatCanBeDialled) {
  AddressBook book(10);
  book.set_own("me:1");
  EXPECT_TRUE(book.add("a:1"));
  for (const char* text : {"a:1", "me:1", "", "a", "a:0", "0.0.0.0:1", "a b:1"})
    EXPECT_FALSE(book.add(text)) << text;
  EXPECT_TRUE(book.add("[0:0::1]:5"));
  EXPECT_FALSE(book.add("[::1]:5"));  // the same place
  EXPECT_EQ(book.size(), 2u);
}

TEST(AddressBook, MixesNewAndProvenPartners) {
  AddressBook book(100);
  Rng rng(1);
  for (int i = 0; i < 10; i++) {
    book.add(fmt::format("good{}:1", i));
    book.answered(fmt::format("good{}:1", i), kStart);
  }
  for (int i = 0; i < 50; i++) book.add(fmt::format("new{}:1", i));
  const auto chosen = book.pick(4, kStart, rng);
  ASSERT_EQ(chosen.size(), 4u);
  // a flood of invented addresses leaves half the calls to those that answer
  EXPECT_EQ(std::count_if(chosen.begin(), chosen.end(),
                          [](const std::string& a) { return a.starts_with("good"); }),
            2);
  // busy ones are not chosen again
  const auto rest = book.pick(100, kStart, rng);
  EXPECT_EQ(rest.size(), 56u);
  for (const std::string& a : chosen) EXPECT_EQ(std::count(rest.begin(), rest.end(), a), 0);
  EXPECT_TRUE(book.pick(1, kStart, rng).empty());
}

TEST(AddressBook, RetriesWithGrowingPausesThenForgets) {
  AddressBook book(10);
  Rng rng(1);
  book.add("a:1");
  TimePoint now = kStart;
  Duration last{};
  for (int i = 1; i < AddressBook::kMaxFailures; i++) {
    ASSERT_EQ(book.pick(1, now, rng).size(), 1u);
    book.failed("a:1", now);
    const Duration pause = book.find("a:1")->next_try - now;
    EXPECT_GT(pause, last);
    last = pause;
    EXPECT_TRUE(book.pick(1, now + pause - 1ns, rng).empty());
    now += pause;
  }
  EXPECT_TRUE(book.sample(5, rng).empty());  // not passed on to others
  book.failed("a:1", now);
  EXPECT_EQ(book.size(), 0u);
  book.answered("a:1", now);  // a late answer does no harm
  EXPECT_EQ(book.size(), 0u);
}

TEST(AddressBook, WhenFullOnlyTheSilentMakeRoom) {
  AddressBook book(2);
  book.add("a:1");
  book.add("b:1");
  EXPECT_FALSE(book.add("c:1"));
  book.failed("a:1", kStart);
  EXPECT_TRUE(book.add("c:1"));
  EXPECT_EQ(book.find("a:1"), nullptr);
  EXPECT_EQ(book.size(), 2u);
}

TEST(AddressBook, SamplesAreRandomAndProvenFirst) {
  AddressBook book(100);
  Rng rng(3);
  for (int i = 0; i < 20; i++) {
    book.add(fmt::format("h{}:1", i));
    if (i < 10) book.answered(fmt::format("h{}:1", i), kStart + i * 1s);
  }
  std::set<std::string> seen;
  for (int i = 0; i < 100; i++)
    for (const std::string& a : book.sample(3, rng)) seen.insert(a);
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(book.sample(100, rng).size(), 20u);
  EXPECT_EQ(book.by_last_answer()[0], "h9:1");
}

TEST(Penalties, GrowDecayAndAreForgiven) {
  Penalties penalties;
  const PeerId id{};
  const auto left_out_for = [&](TimePoint from) {
    Duration d{};
    while (penalties.left_out(id, from + 1h, from + d)) d += 100ms;  // a new lease is there
    return d;
  };
  EXPECT_FALSE(penalties.left_out(id, kStart, kStart));
  penalties.failed(id, kStart);
  EXPECT_TRUE(penalties.left_out(id, kStart, kStart + 1h));  // only the old lease
  EXPECT_EQ(left_out_for(kStart), Penalties::kFirstPenalty);
  penalties.failed(id, kStart);
  EXPECT_EQ(left_out_for(kStart), 2 * Penalties::kFirstPenalty);
  for (int i = 0; i < 50; i++) penalties.failed(id, kStart);
  EXPECT_EQ(left_out_for(kStart), Penalties::kLongestPenalty);
  penalties.succeeded(id);
  EXPECT_FALSE(penalties.left_out(id, kStart, kStart));

  penalties.failed(id, kStart);
  penalties.failed(id, kStart + Penalties::kStrikeHalfLife);  // half a strike was left
  EXPECT_LT(left_out_for(kStart + Penalties::kStrikeHalfLife), 1600ms);
  penalties.expire(kStart + 1h);
  EXPECT_FALSE(penalties.left_out(id, kStart, kStart + 1h));
}

TEST(Penalties, FullIsAPauseWithoutBlame) {
  Penalties penalties;
  const PeerId id{};
  penalties.full(id, kStart);
  EXPECT_TRUE(penalties.left_out(id, kStart, kStart));
  EXPECT_FALSE(penalties.left_out(id, kStart, kStart + Penalties::kFullPause));
  penalties.failed(id, kStart);
  EXPECT_FALSE(penalties.left_out(id, kStart + 1ns, kStart + Penalties::kFirstPenalty));
}

Lease holding(BlockRange blocks, std::string_view content) {
  Lease lease;
  lease.blocks = blocks;
  for (int32_t b = blocks.first; b < blocks.last; b++)
    lease.block_hashes.push_back(block_hash_of(sha256(fmt::format("{} {}", content, b))));
  return lease;
}

TEST(ContentPins, MajorityIsPinnedOnce) {
  ContentPins pins;
  const Lease a = holding({0, 4}, "a"), b1 = holding({2, 6}, "b"), b2 = holding({2, 3}, "b");
  EXPECT_FALSE(pins.objection(a));
  pins.elect({&a, &b1, &b2});
  ASSERT_TRUE(pins.objection(a));  // outvoted on block 2
  EXPECT_NE(pins.objection(a)->find("block 2"), std::string::npos);
  const Lease first_two = holding({0, 2}, "a");
  EXPECT_FALSE(pins.objection(first_two));
  pins.elect({&a, &a, &a, &a});
  EXPECT_TRUE(pins.objection(a));  // a later majority changes nothing
  pins.pin(a.blocks, a.block_hashes);
  EXPECT_FALSE(pins.objection(a));
  EXPECT_TRUE(pins.objection(b1));
}

TEST(ContentPins, TiesDoNotDependOnTheOrder) {
  const Lease a = holding({0, 1}, "a"), b = holding({0, 1}, "b");
  ContentPins ab, ba;
  ab.elect({&a, &b});
  ba.elect({&b, &a});
  EXPECT_EQ(ab.objection(a).has_value(), ba.objection(a).has_value());
  EXPECT_NE(ab.objection(a).has_value(), ab.objection(b).has_value());
}

class SequenceFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/meadow_sequence_XXXXXX";
    folder = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string path() const { return (folder / "identity.sequence").string(); }
  void write(std::string_view text) { std::ofstream(path(), std::ios::binary) << text; }

  std::filesystem::path folder;
};

TEST_F(SequenceFile, GrowsAcrossRestarts) {
  uint64_t last = 0;
  for (int run = 0; run < 5; run++) {
    const auto store = FileSequenceStore::open(path()).value();
    for (int i = 0; i < 1100; i++) {
      const uint64_t next = store->next().value();
      ASSERT_GT(next, last);
      last = next;
    }
  }
  EXPECT_LT(last, 20'000u);
  auto store = FileSequenceStore::open(path()).value();
  store->raise(1'000'000);
  EXPECT_EQ(store->next().value(), 1'000'001u);
  store.reset();
  EXPECT_GT(FileSequenceStore::open(path()).value()->next().value(), 1'000'001u);
}

TEST_F(SequenceFile, RefusesAnythingButANumber) {
  for (const char* text : {"", "x", "-1", "0", "12x", "12\n\n", "99999999999999999999", " 5"}) {
    write(text);
    EXPECT_EQ(FileSequenceStore::open(path()).error().code, Code::kCorrupt) << text;
  }
  write("41\n");
  EXPECT_EQ(FileSequenceStore::open(path()).value()->next().value(), 41u);
}

// Two processes with one identity would withdraw each other's leases for ever.
TEST_F(SequenceFile, OneHolderAtATime) {
  auto first = FileSequenceStore::open(path()).value();
  const auto second = FileSequenceStore::open(path());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kFailedPrecondition);
  first.reset();
  EXPECT_TRUE(FileSequenceStore::open(path()));
}

TEST_F(SequenceFile, SaysWhenItCannotBeWritten) {
  const auto store = FileSequenceStore::open((folder / "missing" / "file").string());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kUnavailable);
}

TEST_F(SequenceFile, EndsBeforeTheLargestNumber) {
  write(std::to_string((uint64_t{1} << 62) - 1));
  const auto store = FileSequenceStore::open(path()).value();
  EXPECT_TRUE(store->next());
  EXPECT_EQ(store->next().error().code, Code::kResourceExhausted);
}

TEST(InMemoryRendezvous, PeersOfOneKeyMeet) {
  std::vector<std::function<void()>> queue;
  InMemoryRendezvous rendezvous([&](std::function<void()> f) { queue.push_back(std::move(f)); });
  const auto meet = [&](std::string_view key, const std::string& address) {
    std::vector<std::string> out;
    rendezvous.meet(sha256(key), address, Deadline(), [&](auto found) { out = std::move(found); });
    for (const auto& f : std::exchange(queue, {})) f();
    return out;
  };
  EXPECT_TRUE(meet("k", "a:1").empty());
  EXPECT_EQ(meet("k", "b:1"), std::vector<std::string>{"a:1"});
  EXPECT_EQ(meet("k", "").size(), 2u);
  EXPECT_EQ(meet("k", "a:1"), std::vector<std::string>{"b:1"});
  EXPECT_TRUE(meet("other", "").empty());
}

}  // namespace
}  // namespace meadow::swarm
