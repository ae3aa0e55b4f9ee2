// What a server announces of its load and speed while it runs: from the counters of the served
// span, smoothed, so that one long prompt does not turn everybody away. Thread rule: one thread at
// a time.
#pragma once
#include <cstdint>

#include "swarm/lease.h"
#include "swarm/span_service.h"

namespace meadow::server {

class LoadMeter {
 public:
  // `measured`: at the start; kept where no real work says better.
  explicit LoadMeter(swarm::ServedSpeed measured) : speed_(measured) {}

  // Call at every beat with the counters as they are now.
  void sample(const swarm::SpanServiceStats& stats);

  // Speeds of one block, as the work of the last minutes showed them.
  const swarm::ServedSpeed& speed() const { return speed_; }
  // Tokens waiting or in work, on average over the last seconds.
  uint32_t queued_tokens() const;

  static constexpr double kQueueWeight = 0.25;   // of a new sample
  static constexpr double kSpeedWeight = 0.2;    // of enough new work
  static constexpr uint64_t kEnoughUs = 200000;  // of computing, before speeds are looked at

 private:
  static void refresh(double& speed, const swarm::WorkDone& now, swarm::WorkDone& before);

  swarm::ServedSpeed speed_;
  double queued_ = 0;
  swarm::WorkDone decoded_, prompted_;  // up to the last look
};

}  // namespace meadow::server
