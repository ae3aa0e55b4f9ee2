// What membership costs on the wire: whole swarms of real Memberships in virtual time.
// Thread rule: one thread a run.
#pragma once
#include <cstdint>

namespace meadow::simulate {

struct TrafficOptions {
  int servers = 30;
  double minutes = 2;  // measured, after the swarm has settled
  uint64_t seed = 1;
  double far_seconds = 0.04;  // one way between two regions; a tenth of it within one
};

struct TrafficReport {
  double bytes_per_peer_minute =
      0;  // sent and received requests and replies, as proto encodes them
  double calls_per_peer_minute = 0;
  double known_seconds = 0;  // from a newcomer's first word until every server knows it
  double gone_seconds = 0;   // from a kill until no server takes it any more
  bool complete = false;     // both happened within five minutes
};

TrafficReport measure_traffic(const TrafficOptions& options);

}  // namespace meadow::simulate
