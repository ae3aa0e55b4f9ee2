// The prices that routes are made of: links, queues, blocks.
// Thread rule: pure functions.
#pragma once
#include <algorithm>

#include "swarm/routing.h"

namespace meadow::swarm {

// Half the client's round trip to a server.
inline double half_rtt(const ServerInfo& server, const RouteCosts& costs) {
  return (server.rtt < Duration{} ? costs.assumed_rtt_seconds : seconds(server.rtt)) / 2;
}

inline double decode_speed(const ServerInfo& server, const RouteCosts& costs) {
  const double speed = server.lease.speed.decode;
  return speed > 0 ? speed : costs.assumed_tokens_per_s;
}

// A step of several positions reads the weights once; the others cost what a prompt's do. A server
// that failed lately has a price that no other way reaches.
inline double seconds_per_block(const ServerInfo& server, const RouteRequest& request) {
  const double decode = decode_speed(server, request.costs);
  const double prefill = std::max(decode, server.lease.speed.prefill);
  const double compute = 1 / decode + std::max(0.0, request.tokens_per_step - 1) / prefill;
  return server.left_out ? compute + kLastResortSeconds : compute;
}

// What waits already is done first: a token of every session at the speed of decoding, the rest at
// that of prompts, each through all blocks held.
inline double queue_seconds(const ServerInfo& server, const RouteCosts& costs) {
  const Lease& lease = server.lease;
  const double decode = decode_speed(server, costs);
  const double prefill = std::max(decode, lease.speed.prefill);
  const double singles = std::min(lease.queued_tokens, lease.sessions);
  const double tokens = singles / decode + (lease.queued_tokens - singles) / prefill;
  return std::min(tokens * lease.blocks.size(), kLongestWaitSeconds);
}

// All that entering a server costs apart from the way to it.
inline double entry_seconds(const ServerInfo& server, const RouteRequest& request) {
  double cost = request.costs.hop_seconds + queue_seconds(server, request.costs);
  if (server.lease.network_bytes_per_s > 0)
    cost += request.tokens_per_step * request.bytes_per_token / server.lease.network_bytes_per_s;
  return cost;
}

// One way between two servers that nobody measured, by their halves of the client's round trips.
inline double assumed_link(double half_a, double half_b, const RouteRequest& request) {
  if (!request.push) return half_a + half_b;
  const double assumed = request.costs.assumed_rtt_seconds / 2;
  return request.costs.bounded_by_client ? std::min(assumed, half_a + half_b) : assumed;
}

// One way from `from` to `to`: as `from` announced it, else assumed.
inline double link_seconds(const ServerInfo& from, const ServerInfo& to,
                           const RouteRequest& request) {
  if (request.push)
    for (const Link& link : from.lease.links)
      if (link.peer == to.peer.id) return static_cast<double>(link.rtt_seconds) / 2;
  return assumed_link(half_rtt(from, request.costs), half_rtt(to, request.costs), request);
}

}  // namespace meadow::swarm
