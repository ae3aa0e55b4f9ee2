// How long one route takes among ten thousand servers and two hundred blocks: the whole of
// find_route(), with announced links, queues and unequal speeds. `bench_routing [SERVERS BLOCKS]`.
// Seeded: the same swarms every time.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/bytes.h"
#include "base/rng.h"
#include "swarm/routing.h"

namespace meadow::bench {
namespace {

using swarm::ServerInfo;

PeerId number(uint32_t i) {
  PeerId id;
  const Digest digest = sha256(fmt::format("server {}", i));
  id.bytes = digest.bytes;
  return id;
}

struct Place {
  double x, y;
};
double rtt_between(const Place& a, const Place& b) {
  return 0.002 + 0.1 * std::hypot(a.x - b.x, a.y - b.y);
}

// Spans of 4 to 20 blocks, speeds log-uniform over a factor of 20 as in the paper's simulations,
// five regions on a map that is 100 ms wide, some queues. A server has measured 64 of those that
// could come after it and announces the 32 nearest.
std::vector<ServerInfo> random_swarm(uint32_t count, int32_t blocks, uint64_t seed) {
  Rng rng(seed);
  std::vector<Place> regions, places;
  for (int i = 0; i < 5; i++) regions.push_back({rng.uniform(), rng.uniform()});
  const Place client{rng.uniform(), rng.uniform()};
  std::vector<ServerInfo> out;
  std::vector<std::vector<uint32_t>> holders(static_cast<size_t>(blocks));
  for (uint32_t i = 0; i < count; i++) {
    const Place& region = regions[rng.below(regions.size())];
    places.push_back({region.x + 0.1 * rng.uniform(), region.y + 0.1 * rng.uniform()});
    ServerInfo s;
    s.peer = {number(i), "203.0.113.1:7000"};
    const int32_t length = std::min<int32_t>(blocks, 4 + static_cast<int32_t>(rng.below(17)));
    s.lease.blocks.first =
        static_cast<int32_t>(rng.below(static_cast<uint64_t>(blocks - length) + 1));
    s.lease.blocks.last = s.lease.blocks.first + length;
    s.lease.n_blocks = blocks;
    s.lease.speed.decode = 50 * std::pow(20, rng.uniform());
    s.lease.speed.prefill = 8 * s.lease.speed.decode;
    s.lease.free_cache_tokens = 1 + static_cast<int64_t>(rng.below(32768));
    s.lease.sessions = static_cast<uint32_t>(rng.below(8));
    s.lease.queued_tokens = static_cast<uint32_t>(rng.below(8));
    if (rng.below(10) != 0) s.rtt = from_seconds(rtt_between(client, places[i]));
    for (int32_t b = s.lease.blocks.first; b < s.lease.blocks.last; b++)
      holders[static_cast<size_t>(b)].push_back(i);
    out.push_back(std::move(s));
  }
  for (uint32_t i = 0; i < count; i++) {
    const int32_t end = out[i].lease.blocks.last;
    if (end == blocks) continue;
    const auto& next = holders[static_cast<size_t>(end)];
    std::vector<swarm::Link>& links = out[i].lease.links;
    std::vector<uint32_t> probed;
    for (size_t n = 0; n < 64 && !next.empty(); n++) probed.push_back(next[rng.below(next.size())]);
    std::sort(probed.begin(), probed.end());
    probed.erase(std::unique(probed.begin(), probed.end()), probed.end());
    for (const uint32_t to : probed)
      if (to != i)
        links.push_back({out[to].peer.id, static_cast<float>(rtt_between(places[i], places[to]))});
    std::sort(links.begin(), links.end(),
              [](const auto& x, const auto& y) { return x.rtt_seconds < y.rtt_seconds; });
    if (links.size() > 32) links.resize(32);
  }
  std::sort(out.begin(), out.end(),
            [](const ServerInfo& a, const ServerInfo& b) { return a.peer.id < b.peer.id; });
  return out;
}

int run(uint32_t count, int32_t blocks) {
  constexpr int kSwarms = 5, kRoutes = 20;
  std::vector<double> times;
  double excess = 0, most_excess = 0;  // over the exact least
  int compared = 0;
  size_t hops = 0;
  for (uint64_t seed = 1; seed <= kSwarms; seed++) {
    const std::vector<ServerInfo> servers = random_swarm(count, blocks, seed);
    for (int i = 0; i < kRoutes; i++) {
      swarm::RouteRequest request{{0, blocks}};
      request.max_tokens = 512 * i;  // other candidates every time
      const auto began = std::chrono::steady_clock::now();
      const auto route = swarm::find_route(servers, request);
      times.push_back(milliseconds(std::chrono::steady_clock::now() - began));
      if (!route) {
        fmt::print(stderr, "{}\n", route.error().text());
        return 1;
      }
      hops += route->chain.size();
    }
    for (int i = 0; i < kRoutes; i += 5) {  // apart: it is no part of the time
      swarm::RouteRequest request{{0, blocks}};
      request.max_tokens = 512 * i;
      const double cost = swarm::find_route(servers, request)->seconds_per_step;
      request.exact_up_to = SIZE_MAX;
      const double over = cost / swarm::find_route(servers, request)->seconds_per_step - 1;
      excess += over;
      most_excess = std::max(most_excess, over);
      compared++;
    }
  }
  std::sort(times.begin(), times.end());
  fmt::print(
      "{} servers, {} blocks, 32 links each: route in {:.2f} ms (median of {}), {:.2f} at "
      "least, {:.2f} at most; {:.1f} hops on average; {:.1f} % above the exact least on average, "
      "{:.1f} at most (of {})\n",
      count, blocks, times[times.size() / 2], times.size(), times.front(), times.back(),
      static_cast<double>(hops) / static_cast<double>(times.size()), 100 * excess / compared,
      100 * most_excess, compared);
  return 0;
}

}  // namespace
}  // namespace meadow::bench

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 10000;
  const int blocks = argc > 2 ? std::atoi(argv[2]) : 200;
  if (count < 1 || count > 1000000 || blocks < 1 || blocks > 4096) {
    fmt::print(stderr, "usage: bench_routing [SERVERS BLOCKS], 1 to 1000000 and 1 to 4096\n");
    return 2;
  }
  return meadow::bench::run(static_cast<uint32_t>(count), blocks);
}
