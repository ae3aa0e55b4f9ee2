#include "swarm/rendezvous.h"

#include <algorithm>
#include <optional>

namespace meadow::swarm {

struct BootstrapRendezvous::Shared {
  std::mutex mutex;
  std::map<std::string, std::optional<Error>> last;  // by address: how the last attempt ended
  bool reached = false;
  bool ended = false;  // the owner is gone: answers are dropped

  // False if nobody is to be told.
  bool record(const std::string& address, const Result<IntroduceReply>& reply) {
    const std::lock_guard lock(mutex);
    if (ended) return false;
    last[address] = reply ? std::nullopt : std::optional(reply.error());
    reached = reached || reply.has_value();
    return reply.has_value();
  }
};

BootstrapRendezvous::BootstrapRendezvous(MemberPort& port, std::vector<std::string> addresses)
    : port_(port), addresses_(std::move(addresses)), shared_(std::make_shared<Shared>()) {
  std::sort(addresses_.begin(), addresses_.end());
  addresses_.erase(std::unique(addresses_.begin(), addresses_.end()), addresses_.end());
}

BootstrapRendezvous::~BootstrapRendezvous() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ended = true;
}

void BootstrapRendezvous::meet(const Digest& key, const std::string& address, Deadline deadline,
                               std::function<void(std::vector<std::string>)> found) {
  for (const std::string& bootstrap : addresses_) {
    if (bootstrap == address) continue;
    port_.introduce(bootstrap, {key, address}, deadline,
                    [shared = shared_, bootstrap, found](Result<IntroduceReply> reply) {
                      if (shared->record(bootstrap, reply)) found(std::move(reply->addresses));
                    });
  }
}

std::vector<Unreachable> BootstrapRendezvous::unreachable() const {
  const std::lock_guard lock(shared_->mutex);
  std::vector<Unreachable> out;
  for (const auto& [address, error] : shared_->last)
    if (error) out.push_back({address, *error});
  return out;
}

bool BootstrapRendezvous::reached() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->reached;
}

void CombinedRendezvous::meet(const Digest& key, const std::string& address, Deadline deadline,
                              std::function<void(std::vector<std::string>)> found) {
  for (Rendezvous* way : ways_) way->meet(key, address, deadline, found);
}

std::vector<Unreachable> CombinedRendezvous::unreachable() const {
  std::vector<Unreachable> out;
  for (const Rendezvous* way : ways_)
    for (Unreachable& place : way->unreachable()) out.push_back(std::move(place));
  return out;
}

bool CombinedRendezvous::reached() const {
  return std::any_of(ways_.begin(), ways_.end(), [](const auto* way) { return way->reached(); });
}

InMemoryRendezvous::InMemoryRendezvous(std::function<void(std::function<void()>)> post)
    : post_(std::move(post)) {}

void InMemoryRendezvous::meet(const Digest& key, const std::string& address, Deadline,
                              std::function<void(std::vector<std::string>)> found) {
  std::vector<std::string> others;
  {
    const std::lock_guard lock(mutex_);
    auto& list = table_[key];
    for (const std::string& other : list)
      if (other != address) others.push_back(other);
    if (!address.empty() && others.size() == list.size()) list.push_back(address);
  }
  post_([found = std::move(found), others = std::move(others)]() mutable {
    found(std::move(others));
  });
}

}  // namespace meadow::swarm
