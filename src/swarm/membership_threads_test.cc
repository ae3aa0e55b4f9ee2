// Memberships over real threads: calls from everywhere at once, and an end while callbacks are out.
// The simulations test what it does; this tests that it may be done from any thread.
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <thread>

#include "swarm/membership.h"

namespace meadow::swarm {
namespace {

// Runs tasks on its threads; what is left at the end is run by the destructor.
class Threads {
 public:
  explicit Threads(int n) {
    for (int i = 0; i < n; i++) threads_.emplace_back([this] { work(); });
  }
  ~Threads() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    ready_.notify_all();
    threads_.clear();
  }
  void post(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    ready_.notify_one();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ready_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool ended_ = false;
  std::vector<std::jthread> threads_;
};

class Network {
 public:
  void listen(const std::string& address, MemberHandler* handler) {
    const std::lock_guard lock(mutex_);
    handlers_[address] = handler;
  }
  // Called with the lock held, so that a handler is not taken away meanwhile.
  bool with(const std::string& address, const std::function<void(MemberHandler&)>& f) {
    const std::lock_guard lock(mutex_);
    const auto it = handlers_.find(address);
    if (it == handlers_.end() || !it->second) return false;
    f(*it->second);
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, MemberHandler*> handlers_;
};

// Its tasks may run after its end, so they hold nothing of it.
class ThreadedPort final : public MemberPort {
 public:
  ThreadedPort(Network& network, Threads& threads, PeerId id)
      : network_(network), threads_(threads), id_(id) {}

  void exchange(const std::string& address, ExchangeRequest request, Deadline,
                std::function<void(Result<ExchangeReply>)> done) override {
    threads_.post([&network = network_, id = id_, address, request = std::move(request),
                   done = std::move(done)] {
      ExchangeReply reply;
      if (network.with(address, [&](auto& h) { reply = h.exchange(id, request); }))
        done(std::move(reply));
      else
        done(fail(Code::kUnavailable, "{}: nobody", address));
    });
  }
  void introduce(const std::string& address, IntroduceRequest request, Deadline,
                 std::function<void(Result<IntroduceReply>)> done) override {
    threads_.post([&network = network_, id = id_, address, request = std::move(request),
                   done = std::move(done)] {
      IntroduceReply reply;
      if (network.with(address, [&](auto& h) { reply = h.introduce(id, request); }))
        done(std::move(reply));
      else
        done(fail(Code::kUnavailable, "{}: nobody", address));
    });
  }
  void ping(const PeerAddress&, Deadline, std::function<void(Result<Duration>)> done) override {
    threads_.post([done = std::move(done)] { done(Duration(1ms)); });
  }

 private:
  Network& network_;
  Threads& threads_;
  PeerId id_;
};

struct Member {
  Member(Network& n, Threads& threads, const Clock& clock, uint8_t number, std::string address)
      : network(n),
        own_address(std::move(address)),
        identity(Identity::from_seed(Bytes(32, number))),
        port(n, threads, identity.id()),
        rendezvous(port, {"m0:1"}) {
    MembershipOptions options;
    options.swarm.name = "threads";
    options.address = own_address;
    options.fingerprint = sha256("model");
    options.version = "0.1.0";
    options.measure_rtt = true;
    options.exchange_period = 1ms;
    options.ping_period = 1ms;
    members = std::make_unique<Membership>(options, identity, port, rendezvous, sequence, clock,
                                           Rng(number));
    if (!own_address.empty()) network.listen(own_address, members.get());
  }
  ~Member() { network.listen(own_address, nullptr); }

  Network& network;
  std::string own_address;
  Identity identity;
  ThreadedPort port;
  BootstrapRendezvous rendezvous;
  MemorySequenceStore sequence;
  std::unique_ptr<Membership> members;
};

ServedSpan span_of(int32_t number) {
  ServedSpan span;
  span.blocks = {number, number + 1};
  span.n_blocks = 8;
  span.block_hashes = {block_hash_of(sha256(std::to_string(number)))};
  return span;
}

TEST(MembershipThreads, EverythingFromEverywhereAtOnce) {
  SystemClock clock;
  Network network;
  Threads threads(3);
  std::vector<std::unique_ptr<Member>> all;
  for (uint8_t i = 0; i < 4; i++)
    all.push_back(std::make_unique<Member>(network, threads, clock, i, fmt::format("m{}:1", i)));
  Member client(network, threads, clock, 9, "");
  const Deadline deadline = Deadline::after(clock, 30s);
  std::vector<std::jthread> drivers;
  std::atomic<bool> end = false;
  for (size_t i = 0; i < all.size(); i++)
    drivers.emplace_back([&, i] {
      for (int round = 0; !end && !deadline.passed(clock.now()); round++) {
        Membership& m = *all[i]->members;
        if (round % 100 == 0) {
          EXPECT_TRUE(m.announce(span_of(static_cast<int32_t>(i)), ServerState::kOnline));
        }
        m.update_load({.free_cache_tokens = round, .speed = {1, 1}});
        m.tick();
        (void)m.stats();
        (void)m.ignored();
        std::this_thread::yield();
      }
    });
  size_t online = 0;
  while (online < all.size() && !deadline.passed(clock.now())) {
    client.members->tick();
    online = client.members->online().size();
    for (const auto& info : client.members->servers()) client.members->report_success(info.peer.id);
    std::this_thread::yield();
  }
  end = true;
  drivers.clear();
  EXPECT_EQ(online, all.size());
}

TEST(MembershipThreads, MayEndWhileCallbacksAreOut) {
  SystemClock clock;
  Network network;
  Threads threads(2);  // outlives the ports' callers, still holds their tasks
  for (uint8_t round = 0; round < 50; round++) {
    Member server(network, threads, clock, 1, "m0:1");
    ASSERT_TRUE(server.members->announce(span_of(0), ServerState::kOnline));
    Member client(network, threads, clock, 2, "");
    for (int i = 0; i < round; i++) client.members->tick();
    client.members.reset();  // its port goes after it; its answers come later still
    network.listen("m0:1", nullptr);
    server.members.reset();
    // the ports themselves must outlive their calls: wait until those have ended
    const auto passed = std::make_shared<std::atomic<int>>(0);
    for (int i = 0; i < 2; i++)
      threads.post([passed] {
        ++*passed;
        while (*passed < 2) std::this_thread::yield();
      });
    while (*passed < 2) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace meadow::swarm
