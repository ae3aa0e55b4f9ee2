#include "swarm/journal.h"

#include <algorithm>

#include "base/check.h"

namespace meadow::swarm {

int64_t Journal::length(int32_t border) const {
  const auto it = at_.find(border);
  return it == at_.end() ? 0 : static_cast<int64_t>(it->second.size()) / bytes_per_position_;
}

bool Journal::append(int32_t border, const HiddenStates& states) {
  const int64_t known = length(border);
  if (static_cast<int64_t>(states.bytes.size()) != states.count * bytes_per_position_ ||
      states.first_position < 0 || states.first_position > known)
    return false;
  const int64_t skip = known - states.first_position;
  if (skip >= states.count) return true;
  Bytes& bytes = at_[border];
  bytes.insert(bytes.end(), states.bytes.begin() + skip * bytes_per_position_, states.bytes.end());
  return true;
}

HiddenStates Journal::get(int32_t border, int64_t first, int64_t count) const {
  MEADOW_CHECK(first >= 0 && count >= 0 && first + count <= length(border));
  HiddenStates out{first, count, {}};
  if (count == 0) return out;
  const Bytes& bytes = at_.at(border);
  out.bytes.assign(bytes.begin() + first * bytes_per_position_,
                   bytes.begin() + (first + count) * bytes_per_position_);
  return out;
}

void Journal::truncate(int64_t position) {
  for (auto& [border, bytes] : at_)
    bytes.resize(std::min(bytes.size(), static_cast<size_t>(position * bytes_per_position_)));
}

void Journal::keep_only(std::span<const int32_t> borders) {
  std::erase_if(at_, [&](const auto& entry) {
    return std::find(borders.begin(), borders.end(), entry.first) == borders.end();
  });
}

int64_t Journal::bytes() const {
  int64_t sum = 0;
  for (const auto& [border, bytes] : at_) sum += static_cast<int64_t>(bytes.size());
  return sum;
}

}  // namespace meadow::swarm
