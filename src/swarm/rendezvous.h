// Rendezvous: how members of a swarm that know nobody find each other. It yields addresses, no
// trust. The adapter here asks bootstrap peers;
// swarm/dht has another behind the same port.
// Thread rule: any thread; meet() never blocks.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "swarm/gossip.h"

namespace meadow::swarm {

// A place of rendezvous that did not answer.
struct Unreachable {
  std::string address;
  Error error;
};

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // "I am at `address` under this key (empty: I only ask); who else?" `found` is called for every
  // answer until `deadline`, from any thread, never from inside the call; not at all if nobody
  // answers.
  virtual void meet(const Digest& key, const std::string& address, Deadline deadline,
                    std::function<void(std::vector<std::string>)> found) = 0;
  // Those whose last attempt failed.
  virtual std::vector<Unreachable> unreachable() const = 0;
  // True once any of them has answered.
  virtual bool reached() const = 0;
};

// Asks every given peer by MemberPort::introduce, all at once. Borrows the port, which must outlive
// it.
class BootstrapRendezvous final : public Rendezvous {
 public:
  BootstrapRendezvous(MemberPort& port, std::vector<std::string> addresses);
  ~BootstrapRendezvous() override;
  void meet(const Digest& key, const std::string& address, Deadline deadline,
            std::function<void(std::vector<std::string>)> found) override;
  std::vector<Unreachable> unreachable() const override;
  bool reached() const override;

 private:
  struct Shared;
  MemberPort& port_;
  std::vector<std::string> addresses_;
  std::shared_ptr<Shared> shared_;  // with the callbacks that are still out
};

// Several ways at once: a meeting is held on all of them. Borrows them.
class CombinedRendezvous final : public Rendezvous {
 public:
  explicit CombinedRendezvous(std::vector<Rendezvous*> ways) : ways_(std::move(ways)) {}
  void meet(const Digest& key, const std::string& address, Deadline deadline,
            std::function<void(std::vector<std::string>)> found) override;
  std::vector<Unreachable> unreachable() const override;
  bool reached() const override;

 private:
  std::vector<Rendezvous*> ways_;
};

// The fake: a table in memory. `post` runs a function later (a simulation's event queue).
class InMemoryRendezvous final : public Rendezvous {
 public:
  explicit InMemoryRendezvous(std::function<void(std::function<void()>)> post);
  void meet(const Digest& key, const std::string& address, Deadline deadline,
            std::function<void(std::vector<std::string>)> found) override;
  std::vector<Unreachable> unreachable() const override { return {}; }
  bool reached() const override { return true; }

 private:
  std::function<void(std::function<void()>)> post_;
  mutable std::mutex mutex_;
  std::map<Digest, std::vector<std::string>> table_;
};

}  // namespace meadow::swarm
