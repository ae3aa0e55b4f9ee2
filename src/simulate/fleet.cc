#include "simulate/fleet.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace meadow::simulate {

NewsDelay::NewsDelay(double mean_seconds, double loss, uint64_t seed)
    : mean_(mean_seconds),
      loss_(std::clamp(loss, 0.0, 0.9)),
      seed_(seed),
      most_(from_seconds(4 * mean_seconds * (loss > 0 ? 3 : 1))) {}

Duration NewsDelay::of(uint64_t from, TimePoint at, uint64_t to) const {
  Rng rng(seed_ ^ (from * 0x9e3779b97f4a7c15) ^ (to * 0xc2b2ae3d27d4eb4f) ^
          static_cast<uint64_t>(at.time_since_epoch().count()));
  double seconds = std::min(4 * mean_, -mean_ * std::log(1 - rng.uniform()));
  while (rng.uniform() < loss_) seconds += mean_;
  return std::min(most_, from_seconds(seconds));
}

SimServer& Fleet::add(SimServer server) {
  server.number = servers_.size();
  present_.push_back(server.number);
  servers_.push_back(std::make_unique<SimServer>(std::move(server)));
  return *servers_.back();
}

void Fleet::announce(SimServer& server, TimePoint at, bool ended) {
  auto& said = server.said;
  said.push_back({at, !ended, server.online, server.blocks});
  while (said.size() > 1 && said[1].at + delay_.most() <= at) said.pop_front();
}

void Fleet::forget(TimePoint now) {
  std::erase_if(present_, [&](uint64_t number) {
    const SimServer& s = at(number);
    if (s.alive || s.said.empty() || s.said.back().present) return false;
    if (s.said.back().at + delay_.most() > now) return false;
    servers_[number].reset();
    return true;
  });
}

const std::vector<swarm::Placed>& Fleet::view(uint64_t viewer, TimePoint now) {
  view_.clear();
  for (const uint64_t number : present_) {
    const SimServer& s = at(number);
    if (number == viewer) {
      if (!s.blocks.empty()) view_.push_back({s.id, s.blocks, s.announced_speed, s.online});
      continue;
    }
    // the newest that has arrived
    for (auto word = s.said.rbegin(); word != s.said.rend(); ++word) {
      if (word->at > now) continue;  // a lease that has yet to run out
      if (word->at + delay_.most() > now && word->at + delay_.of(number, word->at, viewer) > now)
        continue;
      if (word->present) view_.push_back({s.id, word->blocks, s.announced_speed, word->online});
      break;
    }
  }
  return view_;
}

}  // namespace meadow::simulate
