#include "swarm/rebalancer.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace meadow::swarm {
namespace {

// In larger swarms there is news all the time; they are looked at as often as calm ones.
constexpr size_t kCalm = 256;

// Who stands where, whatever the order; speeds change all the time and are left out unless asked
// for.
uint64_t digest(std::span<const Placed> servers, bool speeds) {
  uint64_t sum = servers.size();
  for (const Placed& s : servers) {
    uint64_t h = std::hash<PeerId>()(s.id);
    for (const int64_t part : {int64_t{s.blocks.first}, int64_t{s.blocks.last},
                               int64_t{s.online} * 2 + int64_t{s.movable}}) {
      h = (h ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15;
      h ^= h >> 29;
    }
    if (speeds) h ^= std::bit_cast<uint64_t>(s.tokens_per_s) * 0xbf58476d1ce4e5b9;
    sum += h;
  }
  return sum;
}

uint64_t members(std::span<const Placed> servers) {
  uint64_t sum = servers.size();
  for (const Placed& s : servers) sum += std::hash<PeerId>()(s.id) | 1;
  return sum;
}

double span_speed(const Lease& lease, double bytes_per_token) {
  double speed = lease.speed.decode / std::max(1, lease.blocks.size());
  if (bytes_per_token > 0 && lease.network_bytes_per_s > 0)
    speed = std::min(speed, lease.network_bytes_per_s / bytes_per_token);
  return speed;
}

}  // namespace

std::vector<Placed> placed(std::span<const ServerInfo> servers, double bytes_per_token) {
  std::vector<Placed> out;
  std::vector<double> known;
  for (const ServerInfo& server : servers) {
    const Lease& lease = server.lease;
    if (lease.state == ServerState::kLeaving) continue;
    out.push_back({server.peer.id, lease.blocks, span_speed(lease, bytes_per_token),
                   lease.state == ServerState::kOnline, !lease.pinned});
    if (out.back().tokens_per_s > 0) known.push_back(out.back().tokens_per_s);
  }
  double median = 1;
  if (!known.empty()) {
    const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
    std::nth_element(known.begin(), middle, known.end());
    median = *middle;
  }
  for (Placed& server : out)
    if (!(server.tokens_per_s > 0)) server.tokens_per_s = median;
  return out;
}

Rebalancer::Rebalancer(const PeerId& self, RebalanceOptions options, Rng rng)
    : self_(self), options_(options), rng_(rng) {}

void Rebalancer::look_after(TimePoint now, Duration least, Duration most) {
  next_look_ = now + least + from_seconds(seconds(most - least) * rng_.uniform());
}

std::optional<Move> Rebalancer::decide(int32_t n_blocks, std::span<const Placed> servers,
                                       TimePoint now) {
  const uint64_t view = digest(servers, false);
  if (view != seen_ && servers.size() <= kCalm) {
    // All look soon after a change, so that all know the plan before anybody acts upon it; not at
    // once, since more news may be on the way.
    seen_ = view;
    const Duration soon = options_.settle / 3;
    if (next_look_ > now + soon) look_after(now, soon / 2, soon);
    // Who comes and goes all the time must not make others move in a moment of absence.
    if (const uint64_t present = members(servers); present != std::exchange(present_, present))
      due_since_.reset();
  }
  if (now < next_look_) return std::nullopt;
  looks_++;
  look_after(now, Duration::zero(), 2 * options_.period);

  std::optional<Move> move = own_move(remembered(servers), n_blocks, now);
  if (!move) {
    due_since_.reset();
    return std::nullopt;
  }
  if (!due_since_) due_since_ = now;
  if (now < *due_since_ + options_.settle) {
    look_after(now, *due_since_ + options_.settle - now,
               *due_since_ + options_.settle * 5 / 4 - now);
    return std::nullopt;
  }
  due_since_.reset();
  return move;
}

std::span<const Placed> Rebalancer::remembered(std::span<const Placed> servers) {
  if (servers.size() > kCalm) return servers;  // every block has many holders
  view_.assign(servers.begin(), servers.end());
  std::unordered_map<PeerId, BlockRange> answered;
  answered.reserve(view_.size());
  for (Placed& server : view_) {
    if (server.online) {
      answered[server.id] = server.blocks;
    } else if (const auto it = answered_.find(server.id); it != answered_.end()) {
      server.kept = {std::max(it->second.first, server.blocks.first),
                     std::min(it->second.last, server.blocks.last)};
      answered[server.id] = server.kept;
    }
  }
  answered_.swap(answered);
  return view_;
}

std::optional<Rebalancer::Progress> Rebalancer::progress(std::span<const Placed> servers) const {
  if (plan_.empty() || members(servers) != members_) return std::nullopt;
  std::unordered_map<PeerId, const Placed*> seen;
  for (const Placed& server : servers) seen.emplace(server.id, &server);
  std::unordered_map<PeerId, size_t> made;  // moves of each server so far
  Progress progress;
  for (const Placed& was : before_) {
    const auto it = seen.find(was.id);
    if (it == seen.end()) return std::nullopt;
    const Placed& is = *it->second;
    size_t moves = 0, at = is.blocks == was.blocks ? 0 : SIZE_MAX;
    for (const auto& stage : plan_.stages)
      for (const Move& move : stage)
        if (move.server == was.id && ++moves && move.to == is.blocks) at = moves;
    if (at == SIZE_MAX) return std::nullopt;
    made[was.id] = at;
    progress.done += at;
  }
  std::unordered_map<PeerId, size_t> wanted;
  for (const auto& stage : plan_.stages) {
    bool over = true;
    for (const Move& move : stage)
      over = over && made[move.server] >= ++wanted[move.server] && seen[move.server]->online;
    if (!over) break;
    progress.stage++;
  }
  return progress;
}

std::optional<Move> Rebalancer::own_move(std::span<const Placed> servers, int32_t n_blocks,
                                         TimePoint now) {
  const auto self =
      std::find_if(servers.begin(), servers.end(), [&](const Placed& s) { return s.id == self_; });
  if (self == servers.end() || !self->movable) return std::nullopt;
  auto got = progress(servers);
  if (got && got->done > done_) {
    done_ = got->done;
    proceeded_ = now;
  }
  if (!got || got->stage >= plan_.stages.size() || now > proceeded_ + options_.patience) {
    const uint64_t view = digest(servers, true);
    if (plan_.empty() && searched_ == view) return std::nullopt;
    searched_ = view;
    searches_++;
    plan_ = options_.planner(n_blocks, servers, options_.plan);
    before_.assign(servers.begin(), servers.end());
    members_ = members(servers);
    done_ = 0;
    proceeded_ = now;
    if (plan_.empty()) return std::nullopt;
    got = Progress{};
  }
  if (!self->online) return std::nullopt;
  for (const Move& move : plan_.stages[got->stage])
    if (move.server == self_ && move.from == self->blocks) return move;
  return std::nullopt;
}

}  // namespace meadow::swarm
