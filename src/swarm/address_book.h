// Addresses of other members: whom to talk to next, who answered, who did not.
// Thread rule: one thread at a time (Membership's lock). Bounded.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "base/types.h"

namespace meadow::swarm {

class AddressBook {
 public:
  struct Entry {
    int failures = 0;                          // since the last answer
    TimePoint next_try = TimePoint::min();     // not before
    TimePoint last_answer = TimePoint::min();  // min: never
    bool busy = false;                         // a call is under way
    std::vector<PeerId> wanted;                // leases it asked for
    uint64_t told = 0;                         // newest own lease that it took

    bool answered() const { return last_answer != TimePoint::min(); }
  };

  explicit AddressBook(size_t max_entries) : max_entries_(max_entries) {}

  // Own address: never kept.
  void set_own(const std::string& address);
  // Remembers an address; text that cannot be dialled is dropped. When the book is full, one that
  // does not answer makes room; if all do, the new one is dropped. True if it is new.
  bool add(std::string_view address);
  // Up to n to call now of those that `accept` (null: all), marked busy: new ones and proven ones
  // in equal parts, at random.
  std::vector<std::string> pick(size_t n, TimePoint now, Rng& rng,
                                const std::function<bool(const Entry&)>& accept = {});
  // How a call ended. An address that failed kMaxFailures times in a row is dropped.
  void answered(const std::string& address, TimePoint now);
  void failed(const std::string& address, TimePoint now);

  Entry* find(const std::string& address);
  // Up to n addresses for others, proven ones first, at random.
  std::vector<std::string> sample(size_t n, Rng& rng) const;
  // All, those that answered last first.
  std::vector<std::string> by_last_answer() const;
  size_t size() const { return entries_.size(); }
  const std::map<std::string, Entry>& entries() const { return entries_; }

  static constexpr int kMaxFailures = 5;

 private:
  bool make_room();

  size_t max_entries_;
  std::string own_;
  std::map<std::string, Entry> entries_;  // ordered, so that equal seeds give equal runs
};

// Moves a uniform random choice of `n` elements to the front and drops the rest.
template <class T>
void keep_random(std::vector<T>& items, size_t n, Rng& rng) {
  for (size_t i = 0; i < n && i < items.size(); i++)
    std::swap(items[i], items[i + rng.below(items.size() - i)]);
  if (items.size() > n) items.resize(n);
}

}  // namespace meadow::swarm
