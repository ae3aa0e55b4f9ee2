// Real DHT nodes on the loopback interface, with real time: waits end as soon as what they wait for
// is there.
#include "swarm/dht/dht_rendezvous.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <set>

#include "base/bytes.h"

namespace meadow::swarm::dht {
namespace {

constexpr Duration kPatience = 60s;

class DhtTest : public ::testing::Test {
 protected:
  // A DHT of n nodes that begin with the first one; nobody meets on them.
  void make_dht(size_t n) {
    for (size_t i = 0; i < n; i++) others_.push_back(node());
    for (const auto& other : others_) begin_.push_back(address_of(*other));
    begin_.resize(std::min<size_t>(begin_.size(), 2));
  }
  std::unique_ptr<DhtRendezvous> node() {
    DhtOptions options;
    options.listen = "127.0.0.1:0";
    if (!others_.empty()) options.nodes = {address_of(*others_.front())};
    auto out = DhtRendezvous::start(options, clock_);
    EXPECT_TRUE(out) << out.error().text();
    return std::move(*out);
  }
  static std::string address_of(const DhtRendezvous& node) {
    return "127.0.0.1:" + std::to_string(node.port());
  }
  // Meets again and again, as a member does, until `done` or the end of patience.
  bool meet(DhtRendezvous& node, const Digest& key, const std::string& address,
            std::set<std::string>& found, const std::function<bool()>& done) {
    const Deadline end = Deadline::after(clock_, kPatience);
    std::unique_lock lock(mutex_);
    while (!done() && !end.passed(clock_.now())) {
      lock.unlock();
      node.meet(key, address, Deadline::after(clock_, 3s),
                [this, &found](std::vector<std::string> news) {
                  const std::lock_guard guard(mutex_);
                  found.insert(news.begin(), news.end());
                  changed_.notify_all();
                });
      lock.lock();
      changed_.wait_for(lock, 200ms, done);
    }
    return done();
  }

  SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<DhtRendezvous>> others_;
  std::vector<std::string> begin_;
};

TEST_F(DhtTest, TwoMembersMeetOverNodesOfOthers) {
  make_dht(6);
  const Digest key = sha256("garden");
  std::set<std::string> by_a, by_b;
  const auto a = node(), b = node();
  ASSERT_TRUE(
      meet(*a, key, "127.0.0.1:7001", by_a, [&] { return by_a.contains("127.0.0.1:7001"); }))
      << a->nodes() << " nodes";
  EXPECT_TRUE(
      meet(*b, key, "127.0.0.1:7002", by_b, [&] { return by_b.contains("127.0.0.1:7001"); }));
  EXPECT_TRUE(
      meet(*a, key, "127.0.0.1:7001", by_a, [&] { return by_a.contains("127.0.0.1:7002"); }));
  EXPECT_TRUE(a->reached());
  EXPECT_TRUE(a->unreachable().empty());
}

TEST_F(DhtTest, AnotherSwarmIsNotFound) {
  make_dht(4);
  std::set<std::string> by_a, by_b;
  const auto a = node(), b = node();
  const Digest garden = sha256("garden");
  ASSERT_TRUE(
      meet(*a, garden, "127.0.0.1:7001", by_a, [&] { return by_a.contains("127.0.0.1:7001"); }));
  // b asks for another key, and for this one to see that the DHT answers
  ASSERT_TRUE(meet(*b, sha256("meadow"), "", by_b, [&] { return b->reached(); }));
  std::set<std::string> check;
  ASSERT_TRUE(meet(*b, garden, "", check, [&] { return check.contains("127.0.0.1:7001"); }));
  EXPECT_TRUE(by_b.empty());
}

TEST_F(DhtTest, AClientOnlyAsks) {
  make_dht(4);
  const Digest key = sha256("garden");
  std::set<std::string> by_server, by_client, later;
  const auto server = node(), client = node();
  ASSERT_TRUE(meet(*client, key, "", by_client, [&] { return client->reached(); }));
  ASSERT_TRUE(meet(*server, key, "127.0.0.1:7001", by_server,
                   [&] { return by_server.contains("127.0.0.1:7001"); }));
  ASSERT_TRUE(meet(*client, key, "", later, [&] { return !later.empty(); }));
  EXPECT_EQ(later, std::set<std::string>{"127.0.0.1:7001"});
}

TEST_F(DhtTest, ADeadDhtIsNamed) {
  DhtOptions options;
  options.listen = "127.0.0.1:0";
  options.nodes = {"127.0.0.1:1"};
  ManualClock clock;
  const auto alone = DhtRendezvous::start(options, clock).value();
  EXPECT_TRUE(alone->unreachable().empty());  // nobody has asked yet
  alone->meet(sha256("garden"), "127.0.0.1:7001", Deadline::after(clock, 3s), [](auto) { FAIL(); });
  clock.advance(9s);
  EXPECT_TRUE(alone->unreachable().empty());  // it may still be starting
  clock.advance(1s);
  ASSERT_EQ(alone->unreachable().size(), 1u);
  EXPECT_FALSE(alone->reached());
}

TEST_F(DhtTest, BadAddressesAreRefused) {
  DhtOptions options;
  options.listen = "nowhere";
  EXPECT_EQ(DhtRendezvous::start(options, clock_).error().code, Code::kInvalidArgument);
  options.listen = "127.0.0.1:0";
  options.nodes = {"0.0.0.0:1"};
  EXPECT_EQ(DhtRendezvous::start(options, clock_).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace meadow::swarm::dht
