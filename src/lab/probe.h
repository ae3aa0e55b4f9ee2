// What a lab's network really does: round trips of small packets and the rate of one TCP stream,
// measured between two hosts, so that every figure taken in a lab can stand beside the lab's own.
// Thread rule: each call uses threads of its own; one call at a time.
#pragma once
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "lab/lab.h"

namespace meadow::lab {

struct RoundTrips {
  std::vector<Duration> sorted;  // of those that came back
  int sent = 0;
  Duration at(double quantile) const;  // 0 to 1; zero if none came back
  Duration mean() const;
};
// Sends `count` datagrams of `bytes` (16 to 1400), one at a time, each at most 64 per RTT, and
// waits for each echo. Blocks about count x the round trip.
Result<RoundTrips> measure_round_trips(const Lab& lab, size_t from, size_t to, int count,
                                       size_t bytes = 64);

// Payload bits per second of one TCP stream that runs for `time`, after as long again to get going.
// Blocks.
Result<double> measure_rate(const Lab& lab, size_t from, size_t to, Duration time);

}  // namespace meadow::lab
