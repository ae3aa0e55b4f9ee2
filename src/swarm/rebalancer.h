// When a server should leave its blocks for others: reads its part from the plan that everybody
// with the same view makes, and waits until that view has settled.
// Thread rule: one thread. Owns the plan that it is in the middle of.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "swarm/directory.h"
#include "swarm/placement_plan.h"

namespace meadow::swarm {

struct RebalanceOptions {
  PlanOptions plan;
  Duration period = 60s;  // mean time between two looks at an unchanged swarm
  Duration settle = 30s;  // a move must be due for so long; more than news needs to be everywhere
  // Makes the plans: plan_moves(), or a simulation's that remembers them.
  std::function<Plan(int32_t, std::span<const Placed>, const PlanOptions&)> planner = plan_moves;
  Duration patience = 20min;  // after which a plan that does not proceed is given up
};

// What placement counts of a swarm: servers that join or are online, at the speed of a token
// through their whole span. A speed that is not known yet is taken as the median of the others;
// `bytes_per_token` (of hidden states; 0: not known) over the announced network is a bound.
std::vector<Placed> placed(std::span<const ServerInfo> servers, double bytes_per_token);

class Rebalancer {
 public:
  Rebalancer(const PeerId& self, RebalanceOptions options, Rng rng);

  // Looks at one view, which decides both whether to move and where to; nothing: stay. Call it
  // every second or so; it looks only when it is time to. A move that was returned is expected to
  // be made at once. A look takes some milliseconds at worst, mostly O(servers + blocks).
  std::optional<Move> decide(int32_t n_blocks, std::span<const Placed> servers, TimePoint now);

  // The next time at which decide() looks, if the view stays as it is.
  TimePoint next_look() const { return next_look_; }
  // The plan that the swarm is in the middle of, as far as this server sees.
  const Plan& plan() const { return plan_; }
  // How often it looked, and how often it had to search for a plan.
  uint64_t looks() const { return looks_; }
  uint64_t searches() const { return searches_; }

 private:
  struct Progress {
    size_t stage = 0;  // to be made now
    size_t done = 0;   // moves made, over all stages
  };
  // The view, with what servers that move answer for meanwhile, as far as this one saw it.
  std::span<const Placed> remembered(std::span<const Placed> servers);
  void look_after(TimePoint now, Duration least, Duration most);
  // How far the swarm got with plan_; nothing if it is another swarm by now.
  std::optional<Progress> progress(std::span<const Placed> servers) const;
  std::optional<Move> own_move(std::span<const Placed> servers, int32_t n_blocks, TimePoint now);

  const PeerId self_;
  const RebalanceOptions options_;
  Rng rng_;
  TimePoint next_look_ = TimePoint::min();
  uint64_t seen_ = 0;                 // digest of the last view
  uint64_t present_ = 0;              // digest of who was there then
  uint64_t members_ = 0;              // digest of who was there when plan_ was made
  std::optional<uint64_t> searched_;  // digest of the view that plan_ was made of
  Plan plan_;
  std::vector<Placed> before_;  // the view that plan_ was made of
  std::unordered_map<PeerId, BlockRange> answered_;
  std::vector<Placed> view_;
  size_t done_ = 0;
  TimePoint proceeded_;  // when done_ last grew
  std::optional<TimePoint> due_since_;
  uint64_t looks_ = 0, searches_ = 0;
};

}  // namespace meadow::swarm
