// A running session moves to a better chain, if the user asked for that: when what it saves in the
// steps that may still come pays for feeding the newcomers the journal.
#include <algorithm>
#include <limits>

#include "swarm/inference_session_impl.h"
#include "swarm/route_costs.h"

namespace meadow::swarm {

// The chain to move to, if there is one that pays.
std::optional<Chain> InferenceSession::Impl::better_chain() const {
  std::vector<ServerInfo> servers = directory_.online();
  const Chain present = chain_.hops();
  for (ServerInfo& s : servers)  // our own reservations are no lack of room
    for (const Hop& hop : present)
      if (hop.server.id == s.peer.id)
        s.lease.free_cache_tokens = std::numeric_limits<int64_t>::max();
  const RouteRequest request = route_request();
  const auto best = find_route(servers, request);
  if (!best || best->chain == present) return std::nullopt;
  const auto now = chain_seconds(servers, present, request);
  const double gain = now ? *now - best->seconds_per_step : 0;
  if (!now || gain < options_.move_gain * *now) return std::nullopt;

  // One newcomer after another gets the whole journal.
  RouteRequest replay = request;
  replay.tokens_per_step = static_cast<double>(std::max<int64_t>(1, position_));
  double price = 0;
  for (const Hop& hop : best->chain) {
    if (std::find(present.begin(), present.end(), hop) != present.end()) continue;
    const auto it = std::find_if(servers.begin(), servers.end(),
                                 [&](const ServerInfo& s) { return s.peer.id == hop.server.id; });
    price += 4 * half_rtt(*it, replay.costs) + entry_seconds(*it, replay) +
             hop.blocks.size() * seconds_per_block(*it, replay);
  }
  const auto steps = static_cast<double>(options_.max_tokens - position_);
  return gain * steps > price ? std::optional(best->chain) : std::nullopt;
}

// Between two steps. A move that fails leaves failed spans, which the next step replaces as ever.
Result<void> InferenceSession::Impl::consider_move(const CancelToken* cancel) {
  const TimePoint now = clock_.now();
  if (options_.move_every <= Duration{} || position_ == 0 || chain_.any_failed() ||
      now < next_look_)
    return {};
  next_look_ = now + options_.move_every;
  const auto chain = better_chain();
  if (!chain) return {};
  // Replays get numbers between the last step and the next one.
  last_replay_ = last_step_;
  StepProgress progress{.step = last_step_, .first = position_};
  lay_out(*chain);
  const Result<void> moved = [&]() -> Result<void> {
    MEADOW_TRY_VOID(await_opened(progress, cancel));
    for (size_t i = 0; i < chain_.spans.size(); i++)
      if (!chain_.spans[i].fed) MEADOW_TRY_VOID(feed(i, position_, progress, cancel));
    announce_route();
    return {};
  }();
  if (!moved) {
    if (moved.error().code == Code::kUnavailable) return {};
    return moved;
  }
  stats_.moves++;
  std::vector<int32_t> borders;
  for (const ChainSpan& s : chain_.spans) borders.push_back(s.hop.blocks.first);
  chain_.journal.keep_only(borders);
  return {};
}

}  // namespace meadow::swarm
