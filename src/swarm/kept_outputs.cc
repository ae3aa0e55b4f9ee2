#include "swarm/kept_outputs.h"

#include <algorithm>

namespace meadow::swarm {

void KeptOutputs::append(const HiddenStates& output) {
  if (output.first_position != end()) {
    data_.clear();
    begin_ = output.first_position;
  }
  data_.insert(data_.end(), output.bytes.begin(), output.bytes.end());
  const int64_t over = static_cast<int64_t>(data_.size()) - max_bytes_;
  if (over > 0) acknowledge(begin_ + (over + bytes_per_position_ - 1) / bytes_per_position_);
}

void KeptOutputs::truncate(int64_t position) {
  const int64_t keep = std::clamp<int64_t>(position - begin_, 0, positions());
  data_.resize(static_cast<size_t>(keep * bytes_per_position_));
  if (position < begin_) begin_ = position;
}

void KeptOutputs::acknowledge(int64_t position) {
  const int64_t drop = std::clamp<int64_t>(position - begin_, 0, positions());
  data_.erase(data_.begin(), data_.begin() + drop * bytes_per_position_);
  begin_ += drop;
}

std::optional<HiddenStates> KeptOutputs::get(int64_t first, int64_t last) const {
  if (first < begin_ || last > end() || first > last) return std::nullopt;
  HiddenStates out{first, last - first, {}};
  out.bytes.assign(data_.begin() + (first - begin_) * bytes_per_position_,
                   data_.begin() + (last - begin_) * bytes_per_position_);
  return out;
}

}  // namespace meadow::swarm
