#include "swarm/routing.h"

#include <algorithm>
#include <tuple>

namespace meadow::swarm {
namespace {

double half_rtt(const ServerInfo& server) {
  return (server.rtt < Duration{} ? kAssumedRttSeconds : seconds(server.rtt)) / 2;
}

double seconds_per_block(const ServerInfo& server) {
  const double speed = server.lease.speed.decode;
  return 1 / (speed > 0 ? speed : kAssumedTokensPerS);
}

// The best way found to have done all blocks before a border.
struct Way {
  double cost = 0;
  int32_t hops = -1;  // -1: none found
  size_t server = 0;  // of the last hop
  int32_t from = 0;   // where the last hop begins
};

class Search {
 public:
  Search(std::vector<const ServerInfo*> servers, BlockRange blocks)
      : servers_(std::move(servers)),
        blocks_(blocks),
        ways_(static_cast<size_t>(blocks.size()) + 1) {}

  // Extends from every border in turn; all ways to a border come from lower ones.
  void run() {
    at(blocks_.first).hops = 0;
    for (int32_t border = blocks_.first; border < blocks_.last; border++) {
      if (at(border).hops < 0) continue;
      for (size_t s = 0; s < servers_.size(); s++)
        if (servers_[s]->lease.blocks.contains(border)) extend(border, s);
    }
  }

  bool found() const { return ways_.back().hops > 0; }

  Route route() const {
    Route route;
    route.seconds_per_token = ways_.back().cost;
    for (int32_t border = blocks_.last; border > blocks_.first;) {
      const Way& way = ways_[static_cast<size_t>(border - blocks_.first)];
      route.chain.push_back({servers_[way.server]->peer, {way.from, border}});
      border = way.from;
    }
    std::reverse(route.chain.begin(), route.chain.end());
    return route;
  }

 private:
  Way& at(int32_t border) { return ways_[static_cast<size_t>(border - blocks_.first)]; }

  void extend(int32_t border, size_t s) {
    const ServerInfo& server = *servers_[s];
    const int32_t last = std::min(server.lease.blocks.last, blocks_.last);
    const Way before = at(border);
    for (int32_t end = border + 1; end <= last; end++) {
      Way way{
          before.cost + half_rtt(server) + kHopSeconds + (end - border) * seconds_per_block(server),
          before.hops + 1, s, border};
      if (end == blocks_.last) way.cost += half_rtt(server);
      if (at(end).hops < 0 || better(way, at(end))) at(end) = way;
    }
  }

  bool better(const Way& a, const Way& b) const {
    return std::tie(a.cost, a.hops, servers_[a.server]->peer.id) <
           std::tie(b.cost, b.hops, servers_[b.server]->peer.id);
  }

  std::vector<const ServerInfo*> servers_;
  BlockRange blocks_;
  std::vector<Way> ways_;  // by border - blocks_.first
};

struct Candidates {
  std::vector<const ServerInfo*> usable;
  std::vector<BlockRange> avoided, full;  // spans passed over
};

Candidates sort_out(std::span<const ServerInfo> servers, const RouteRequest& request) {
  Candidates out;
  for (const ServerInfo& server : servers) {
    const auto& avoid = request.avoid;
    if (std::find(avoid.begin(), avoid.end(), server.peer.id) != avoid.end())
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
  return fail(Code::kUnavailable, "block{} {} {} no server online{}", one ? "" : "s", names,
              one ? "has" : "have", passed_over);
}

}  // namespace

Result<Route> find_route(std::span<const ServerInfo> servers, const RouteRequest& request) {
  if (request.blocks.empty() || request.blocks.first < 0 || request.blocks.last > kMaxBlocks)
    return fail(Code::kInvalidArgument, "route: {}:{} is no range of blocks", request.blocks.first,
                request.blocks.last);
  const Candidates candidates = sort_out(servers, request);
  Search search(candidates.usable, request.blocks);
  search.run();
  if (!search.found()) return missing(candidates, request);
  return search.route();
}

std::string describe(const Chain& chain) {
  std::string out;
  for (const Hop& hop : chain)
    out += fmt::format("{}{}:{} via {}", out.empty() ? "" : " => ", hop.blocks.first,
                       hop.blocks.last, short_id(hop.server.id));
  return out;
}

}  // namespace meadow::swarm
