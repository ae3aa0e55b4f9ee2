#include "server/load_meter.h"

#include <cmath>

namespace meadow::server {

void LoadMeter::refresh(double& speed, const swarm::WorkDone& now, swarm::WorkDone& before) {
  const uint64_t us = now.compute_us - before.compute_us;
  if (us < kEnoughUs) return;
  const double seen =
      static_cast<double>(now.block_tokens - before.block_tokens) / (static_cast<double>(us) / 1e6);
  speed = speed > 0 ? (1 - kSpeedWeight) * speed + kSpeedWeight * seen : seen;
  before = now;
}

void LoadMeter::sample(const swarm::SpanServiceStats& stats) {
  queued_ += kQueueWeight * (static_cast<double>(stats.queued_tokens) - queued_);
  refresh(speed_.decode, stats.decoded, decoded_);
  refresh(speed_.prefill, stats.prompted, prompted_);
}

uint32_t LoadMeter::queued_tokens() const { return static_cast<uint32_t>(std::lround(queued_)); }

}  // namespace meadow::server
