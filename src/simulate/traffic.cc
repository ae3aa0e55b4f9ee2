#include "simulate/traffic.h"

#include <algorithm>
#include <string>
#include <vector>

#include "simulate/members.h"

namespace meadow::simulate {
namespace {

constexpr Duration kLimit = 300s;
constexpr int kRegions = 4;

bool all_see(const std::vector<Node*>& servers, const Node& one, bool expected) {
  for (const Node* server : servers)
    if (server != &one && server->sees(one) != expected) return false;
  return true;
}

}  // namespace

TrafficReport measure_traffic(const TrafficOptions& options) {
  SimSwarm swarm;
  Rng rng(options.seed);
  swarm.bootstrap();
  std::vector<Node*> servers;
  const auto add = [&] {
    NodeOptions node;
    const auto number = static_cast<int>(servers.size());
    node.address = SimSwarm::address_of(number);
    node.bootstrap = {"boot:1"};
    const auto first = static_cast<int32_t>(rng.below(kSimBlocks - 4));
    node.blocks = {first, first + 4};
    servers.push_back(&swarm.add(node));
    for (int other = 0; other < number; other++)
      swarm.world.set_latency(
          servers[static_cast<size_t>(other)]->peer, servers.back()->peer,
          from_seconds(options.far_seconds * (other % kRegions == number % kRegions ? 0.1 : 1)));
  };
  for (int i = 0; i < options.servers; i++) {
    add();
    swarm.world.run_for(50ms);
  }
  swarm.world.run_for(60s);

  TrafficReport report;
  swarm.network.calls = swarm.network.bytes = 0;
  swarm.world.run_for(from_seconds(options.minutes * 60));
  const double share = options.minutes * (options.servers + 1);
  report.bytes_per_peer_minute = 2 * static_cast<double>(swarm.network.bytes) / share;
  report.calls_per_peer_minute = static_cast<double>(swarm.network.calls) / share;

  TimePoint start = swarm.world.now();
  add();
  Node& newcomer = *servers.back();
  const bool known = swarm.world.run_for(kLimit, [&] { return all_see(servers, newcomer, true); });
  report.known_seconds = seconds(swarm.world.now() - start);
  start = swarm.world.now();
  swarm.kill(newcomer);
  servers.pop_back();
  const bool gone = swarm.world.run_for(kLimit, [&] { return all_see(servers, newcomer, false); });
  report.gone_seconds = seconds(swarm.world.now() - start);
  report.complete = known && gone;
  return report;
}

}  // namespace meadow::simulate
