#include "text/stop_strings.h"

#include <algorithm>

namespace meadow::text {

Result<StopStrings> StopStrings::create(std::vector<std::string> stops) {
  if (stops.size() > kMaxStrings)
    return fail(Code::kInvalidArgument, "expected at most {} stop strings, got {}", kMaxStrings,
                stops.size());
  for (const std::string& stop : stops)
    if (stop.empty() || stop.size() > kMaxBytes)
      return fail(Code::kInvalidArgument, "expected a stop string of 1 to {} bytes, got {}",
                  kMaxBytes, stop.size());
  std::stable_sort(stops.begin(), stops.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return StopStrings(std::move(stops));
}

std::string StopStrings::push(std::string_view text) {
  if (stopped_) return {};
  const size_t searched = held_.size();
  held_ += text;
  const std::string_view all = held_;
  // By where it ends, so that the answer does not depend on how the text was cut.
  for (size_t end = searched + 1; end <= all.size(); end++) {
    for (const std::string& stop : stops_) {
      if (!all.substr(0, end).ends_with(stop)) continue;
      stopped_ = true;
      held_.resize(end - stop.size());
      return std::move(held_);
    }
  }
  const size_t longest = stops_.empty() ? 0 : stops_.front().size() - 1;
  size_t keep = std::min(longest, all.size());
  const auto may_begin = [&](const std::string& stop) {
    return stop.size() > keep && all.ends_with(std::string_view(stop).substr(0, keep));
  };
  while (keep > 0 && std::none_of(stops_.begin(), stops_.end(), may_begin)) keep--;
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopStrings::flush() {
  std::string out = stopped_ ? std::string() : std::move(held_);
  held_.clear();
  return out;
}

}  // namespace meadow::text
