// How many network probes a peer answers: enough for everybody to measure, too few to be a load.
// Thread rule: any thread. Bounded.
#pragma once
#include <mutex>
#include <unordered_map>

#include "base/clock.h"
#include "base/types.h"

namespace meadow::rpc {

constexpr Duration kProbePause = 10s;  // between two probes of one peer
constexpr int kProbesPerMinute = 60;   // of all peers together

class ProbeRation {
 public:
  // Whether `peer` may probe now; counts it if so.
  bool take(const PeerId& peer, TimePoint now) {
    const std::lock_guard lock(mutex_);
    if (now - minute_ >= 60s) {
      minute_ = now;
      count_ = 0;
      std::erase_if(last_, [&](const auto& l) { return now - l.second >= kProbePause; });
    }
    const auto last = last_.find(peer);
    if (count_ >= kProbesPerMinute || (last != last_.end() && now - last->second < kProbePause))
      return false;
    count_++;
    last_[peer] = now;  // at most kProbesPerMinute of them
    return true;
  }

 private:
  std::mutex mutex_;
  TimePoint minute_{};
  int count_ = 0;
  std::unordered_map<PeerId, TimePoint> last_;
};

}  // namespace meadow::rpc
