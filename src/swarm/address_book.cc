#include "swarm/address_book.h"

#include <algorithm>

#include "swarm/address.h"

namespace meadow::swarm {
namespace {

constexpr Duration kFirstRetry = 1s;

std::string canonical(std::string_view address) {
  const auto parsed = parse_dialable(address);
  return parsed ? format(*parsed) : std::string();
}

}  // namespace

void AddressBook::set_own(const std::string& address) {
  own_ = canonical(address);
  entries_.erase(own_);
}

bool AddressBook::add(std::string_view address) {
  std::string text = canonical(address);
  if (text.empty() || text == own_ || entries_.contains(text)) return false;
  if (entries_.size() >= max_entries_ && !make_room()) return false;
  entries_.emplace(std::move(text), Entry{});
  return true;
}

bool AddressBook::make_room() {
  const auto worse = [](const auto& a, const auto& b) {
    return a.second.failures < b.second.failures;
  };
  const auto worst = std::max_element(entries_.begin(), entries_.end(), worse);
  if (worst == entries_.end() || worst->second.failures == 0) return false;
  entries_.erase(worst);
  return true;
}

std::vector<std::string> AddressBook::pick(size_t n, TimePoint now, Rng& rng,
                                           const std::function<bool(const Entry&)>& accept) {
  std::vector<std::string> unproven, proven;
  for (const auto& [address, entry] : entries_) {
    if (entry.busy || entry.next_try > now || (accept && !accept(entry))) continue;
    (entry.answered() ? proven : unproven).push_back(address);
  }
  const size_t half = std::min(unproven.size(), (n + 1) / 2);
  const size_t from_proven = std::min(proven.size(), n - half);
  const size_t from_unproven = std::min(unproven.size(), n - from_proven);
  keep_random(proven, from_proven, rng);
  keep_random(unproven, from_unproven, rng);
  proven.insert(proven.end(), unproven.begin(), unproven.end());
  for (const std::string& address : proven) entries_.at(address).busy = true;
  return proven;
}

void AddressBook::answered(const std::string& address, TimePoint now) {
  Entry* entry = find(address);
  if (!entry) return;
  entry->busy = false;
  entry->failures = 0;
  entry->last_answer = now;
  entry->next_try = now;
}

void AddressBook::failed(const std::string& address, TimePoint now) {
  Entry* entry = find(address);
  if (!entry) return;
  entry->busy = false;
  if (++entry->failures >= kMaxFailures) {
    entries_.erase(address);
    return;
  }
  entry->next_try = now + kFirstRetry * (1 << entry->failures);
}

AddressBook::Entry* AddressBook::find(const std::string& address) {
  const auto it = entries_.find(address);
  return it == entries_.end() ? nullptr : &it->second;
}

std::vector<std::string> AddressBook::sample(size_t n, Rng& rng) const {
  std::vector<std::string> proven, others;
  for (const auto& [address, entry] : entries_)
    if (entry.failures == 0) (entry.answered() ? proven : others).push_back(address);
  keep_random(proven, n, rng);
  keep_random(others, n - proven.size(), rng);
  proven.insert(proven.end(), others.begin(), others.end());
  return proven;
}

std::vector<std::string> AddressBook::by_last_answer() const {
  std::vector<std::pair<TimePoint, std::string>> order;
  for (const auto& [address, entry] : entries_) order.emplace_back(entry.last_answer, address);
  std::sort(order.begin(), order.end(), std::greater<>());
  std::vector<std::string> out;
  for (auto& [time, address] : order) out.push_back(std::move(address));
  return out;
}

}  // namespace meadow::swarm
