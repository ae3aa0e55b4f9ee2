#include "swarm/routing.h"

#include <algorithm>

#include "swarm/route_costs.h"
#include "swarm/route_search.h"

namespace meadow::swarm {
namespace {

struct Candidates {
  std::vector<const ServerInfo*> usable;
  std::vector<BlockRange> avoided, refused, full, without_codec;  // spans passed over
};

Candidates sort_out(std::span<const ServerInfo> servers, const RouteRequest& request) {
  Candidates out;
  for (const ServerInfo& server : servers) {
    const auto& avoid = request.avoid;
    const bool knows =
        !request.codec || (server.lease.codecs >> static_cast<int>(*request.codec) & 1) != 0;
    if (!knows)
      out.without_codec.push_back(server.lease.blocks);
    else if (!request.filter.passes(server.peer.id))
      out.refused.push_back(server.lease.blocks);
    else if (std::find(avoid.begin(), avoid.end(), server.peer.id) != avoid.end())
      out.avoided.push_back(server.lease.blocks);
    else if (server.lease.free_cache_tokens < request.max_tokens)
      out.full.push_back(server.lease.blocks);
    else
      out.usable.push_back(&server);
  }
  return out;
}

bool held(BlockRange gap, const std::vector<BlockRange>& spans) {
  for (int32_t b = gap.first; b < gap.last; b++)
    if (std::none_of(spans.begin(), spans.end(), [&](BlockRange s) { return s.contains(b); }))
      return false;
  return true;
}

bool covered(int32_t block, const std::vector<const ServerInfo*>& servers) {
  return std::any_of(servers.begin(), servers.end(),
                     [&](const ServerInfo* s) { return s->lease.blocks.contains(block); });
}

size_t holders(const std::vector<BlockRange>& spans, const std::vector<BlockRange>& gaps) {
  return static_cast<size_t>(std::count_if(spans.begin(), spans.end(), [&](BlockRange span) {
    return std::any_of(gaps.begin(), gaps.end(), [&](BlockRange gap) {
      return span.first < gap.last && gap.first < span.last;
    });
  }));
}

std::unexpected<Error> missing(const Candidates& candidates, const RouteRequest& request) {
  std::vector<BlockRange> gaps;
  for (int32_t b = request.blocks.first; b < request.blocks.last; b++) {
    if (covered(b, candidates.usable)) continue;
    if (!gaps.empty() && gaps.back().last == b)
      gaps.back().last++;
    else
      gaps.push_back({b, b + 1});
  }
  std::string names;
  for (const BlockRange gap : gaps) {
    names += names.empty() ? "" : ", ";
    names += gap.size() == 1 ? fmt::format("{}", gap.first)
                             : fmt::format("{} to {}", gap.first, gap.last - 1);
  }
  const bool one = gaps.size() == 1 && gaps[0].size() == 1;
  const bool full = std::all_of(gaps.begin(), gaps.end(),
                                [&](BlockRange gap) { return held(gap, candidates.full); });
  if (full && holders(candidates.avoided, gaps) == 0)
    return fail(
        Code::kResourceExhausted,
        "block{} {} {} held, but without room for {} tokens; a shorter context, or a moment "
        "later",
        one ? "" : "s", names, one ? "is" : "are", request.max_tokens);
  std::string passed_over;
  if (const size_t n = holders(candidates.full, gaps); n > 0)
    passed_over += fmt::format("; {} without cache for {} tokens", n, request.max_tokens);
  if (const size_t n = holders(candidates.avoided, gaps); n > 0)
    passed_over += fmt::format("; {} left out after a failure", n);
  if (const size_t n = holders(candidates.refused, gaps); n > 0)
    passed_over += fmt::format("; {} not among the allowed servers", n);
  if (const size_t n = holders(candidates.without_codec, gaps); n > 0)
    passed_over += fmt::format("; {} without the codec {}", n, name(*request.codec));
  return fail(Code::kUnavailable, "block{} {} {} no server online{}", one ? "" : "s", names,
              one ? "has" : "have", passed_over);
}

}  // namespace

namespace {

Result<void> check(const RouteRequest& request) {
  if (request.blocks.empty() || request.blocks.first < 0 || request.blocks.last > kMaxBlocks)
    return fail(Code::kInvalidArgument, "route: {}:{} is no range of blocks", request.blocks.first,
                request.blocks.last);
  return {};
}

const ServerInfo* find(std::span<const ServerInfo> servers, const PeerId& id) {
  const auto it = std::find_if(servers.begin(), servers.end(),
                               [&](const ServerInfo& s) { return s.peer.id == id; });
  return it == servers.end() ? nullptr : &*it;
}

}  // namespace

Result<Route> find_route(std::span<const ServerInfo> servers, const RouteRequest& request) {
  MEADOW_TRY_VOID(check(request));
  const Candidates candidates = sort_out(servers, request);
  if (auto route = RouteSearch(candidates.usable, servers, request).run()) return *std::move(route);
  return missing(candidates, request);
}

Result<double> chain_seconds(std::span<const ServerInfo> servers, const Chain& chain,
                             const RouteRequest& request) {
  double cost = 0;
  const ServerInfo* before = request.previous ? find(servers, *request.previous) : nullptr;
  for (const Hop& hop : chain) {
    const ServerInfo* server = find(servers, hop.server.id);
    if (server == nullptr)
      return fail(Code::kNotFound, "server {} is not known any more", short_id(hop.server.id));
    cost += before ? link_seconds(*before, *server, request) : half_rtt(*server, request.costs);
    cost += entry_seconds(*server, request);
    cost += hop.blocks.size() * seconds_per_block(*server, request);
    before = server;
  }
  const ServerInfo* next = request.next ? find(servers, *request.next) : nullptr;
  if (before != nullptr)
    cost += next ? link_seconds(*before, *next, request) : half_rtt(*before, request.costs);
  return cost;
}

double throughput_weight(const ServerInfo& server, Pass pass) {
  constexpr double kNextToNothing = 1e-6;
  const ServedSpeed& speed = server.lease.speed;
  double tokens_per_s = pass == Pass::kBackward ? speed.backward : speed.forward;
  if (tokens_per_s <= 0) tokens_per_s = speed.forward > 0 ? speed.forward : speed.prefill;
  if (tokens_per_s <= 0) tokens_per_s = kAssumedTokensPerS;
  const double rate = tokens_per_s / std::max(1, server.lease.blocks.size());
  return server.left_out ? kNextToNothing * rate : rate;
}

namespace {

// Index of a weight, drawn in proportion; their sum is positive.
size_t draw(std::span<const double> weights, Rng& rng) {
  double sum = 0;
  for (const double w : weights) sum += w;
  double point = rng.uniform() * sum;
  size_t chosen = 0;  // the last with a weight, should rounding pass them all
  for (size_t i = 0; i < weights.size(); i++) {
    if (weights[i] <= 0) continue;
    chosen = i;
    if (point < weights[i]) break;
    point -= weights[i];
  }
  return chosen;
}

}  // namespace

// At every block each holder shall be drawn with its share of the block's throughput. From one
// block to the next the two distributions are coupled so that the server changes as seldom as they
// allow (maximal coupling): a server is left with the probability by which its share shrinks, or at
// its span's end, for one whose share grows.
Result<Route> draw_route(std::span<const ServerInfo> servers, const RouteRequest& request,
                         Pass pass, Rng& rng, SpreadWeight weight) {
  MEADOW_TRY_VOID(check(request));
  RouteRequest without_cache = request;
  without_cache.max_tokens = 0;
  const Candidates candidates = sort_out(servers, without_cache);
  const size_t count = candidates.usable.size();
  std::vector<double> weights(count), grown(count);
  for (size_t i = 0; i < count; i++) weights[i] = weight(*candidates.usable[i], pass);
  Route route;
  size_t at = count;  // the server; count: none yet
  double before = 0;  // sum of the weights of the block before
  for (int32_t block = request.blocks.first; block < request.blocks.last; block++) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
      if (candidates.usable[i]->lease.blocks.contains(block)) sum += weights[i];
    if (sum <= 0) return missing(candidates, without_cache);
    const bool holds = at < count && candidates.usable[at]->lease.blocks.contains(block);
    const bool stays = holds && (sum <= before || rng.uniform() * sum < before);
    if (stays) {
      route.chain.back().blocks.last++;
    } else {
      for (size_t i = 0; i < count; i++) {
        const BlockRange held = candidates.usable[i]->lease.blocks;
        const double had = at < count && held.contains(block - 1) ? weights[i] / before : 0;
        grown[i] = held.contains(block) ? std::max(0.0, weights[i] / sum - had) : 0;
      }
      at = draw(grown, rng);
      route.chain.push_back({candidates.usable[at]->peer, {block, block + 1}});
    }
    before = sum;
  }
  MEADOW_TRY(route.seconds_per_step, chain_seconds(servers, route.chain, without_cache));
  return route;
}

std::string describe(const Chain& chain) {
  std::string out;
  for (const Hop& hop : chain)
    out += fmt::format("{}{}:{} via {}", out.empty() ? "" : " => ", hop.blocks.first,
                       hop.blocks.last, short_id(hop.server.id));
  return out;
}

}  // namespace meadow::swarm
