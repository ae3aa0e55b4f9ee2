#include "swarm/rebalancer.h"

#include <gtest/gtest.h>

#include <map>

#include "base/identity.h"

namespace meadow::swarm {
namespace {

PeerId id_of(int number) {
  PeerId id;
  id.bytes = sha256(std::to_string(number)).bytes;
  return id;
}

// Servers that all see the same, one look each per second.
struct Swarm {
  explicit Swarm(std::vector<Placed> s, int32_t blocks, RebalanceOptions options = {})
      : servers(std::move(s)), n_blocks(blocks) {
    for (const Placed& server : servers)
      rules.emplace_back(server.id, options, Rng(rules.size() + 1));
  }
  // Those who move in this second, and where.
  std::vector<Move> second() {
    clock.advance(1s);
    std::vector<Move> moves;
    for (size_t i = 0; i < servers.size(); i++)
      if (const auto move = rules[i].decide(n_blocks, servers, clock.now())) moves.push_back(*move);
    return moves;
  }
  Placed& at(const PeerId& id) {
    for (Placed& s : servers)
      if (s.id == id) return s;
    return servers.front();
  }
  std::vector<Move> run(Duration time, Duration load) {
    std::vector<Move> all;
    std::multimap<TimePoint, PeerId> loading;
    for (const TimePoint end = clock.now() + time; clock.now() < end;) {
      for (const Move& move : second()) {
        EXPECT_EQ(at(move.server).blocks, move.from);
        at(move.server).blocks = move.to;
        at(move.server).online = false;
        loading.emplace(clock.now() + load, move.server);
        all.push_back(move);
      }
      for (; !loading.empty() && loading.begin()->first <= clock.now();
           loading.erase(loading.begin()))
        at(loading.begin()->second).online = true;
    }
    return all;
  }

  ManualClock clock;
  std::vector<Placed> servers;
  int32_t n_blocks;
  std::vector<Rebalancer> rules;
};

// Two equal servers on the same blocks, a gap elsewhere, both look at the same time.
TEST(Rebalancer, OfTwoThatCouldMoveOneDoes) {
  Swarm swarm({{id_of(1), {0, 2}, 5}, {id_of(2), {0, 2}, 5}, {id_of(3), {0, 4}, 1}}, 4);
  const auto moves = swarm.run(10min, 60s);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].to, (BlockRange{2, 4}));
}

TEST(Rebalancer, WaitsUntilTheViewHasSettled) {
  RebalanceOptions options;
  Swarm swarm({{id_of(1), {0, 2}, 5}, {id_of(2), {0, 2}, 5}}, 4, options);
  const TimePoint start = swarm.clock.now();
  while (swarm.second().empty()) ASSERT_LT(swarm.clock.now() - start, 60s);
  EXPECT_GE(swarm.clock.now() - start, options.settle);
}

// A third server that comes and goes (its lease flaps) leaves the others where they are: whenever
// it is there no move gains anything, and when it is not the reason does not last.
TEST(Rebalancer, AFlappingServerMovesNobody) {
  Swarm swarm({{id_of(1), {0, 2}, 5}, {id_of(2), {0, 2}, 5}, {id_of(3), {2, 4}, 5}}, 4);
  swarm.servers[2].online = false;  // joining for ever
  std::vector<Placed> gone;
  for (int i = 0; i < 600; i++) {
    EXPECT_TRUE(swarm.second().empty()) << i;
    if (i % 7 != 0) continue;
    if (gone.empty()) {
      gone = {swarm.servers.back()};
      swarm.servers.pop_back();
    } else {
      swarm.servers.push_back(gone.back());
      gone.clear();
    }
  }
}

TEST(Rebalancer, NoMoveWhereThePresentPlaceIsTheBest) {
  Swarm swarm({{id_of(1), {0, 2}, 5}, {id_of(2), {2, 4}, 4}}, 4, {.plan = {.min_gain = 0}});
  EXPECT_TRUE(swarm.run(1h, 60s).empty());
  EXPECT_GT(swarm.rules[0].looks(), 20u);
}

TEST(Rebalancer, TheLastHolderAndThePinnedStay) {
  // [0, 1) is held by a fast one alone; [1, 2) would profit
  Swarm alone({{id_of(1), {0, 1}, 9}, {id_of(2), {1, 2}, 1}}, 2);
  EXPECT_TRUE(alone.run(1h, 60s).empty());
  Swarm pinned({{id_of(1), {0, 1}, 9}, {id_of(2), {0, 1}, 9}, {id_of(3), {1, 2}, 1}}, 2);
  pinned.servers[0].movable = pinned.servers[1].movable = false;
  EXPECT_TRUE(pinned.run(1h, 60s).empty());
}

// The plan has several stages: everybody waits for those of the last one to be online, and goes on
// although what is left of the gain is under the threshold by then.
TEST(Rebalancer, StagesFollowOneAnother) {
  // the first random swarm that needs them
  Rng rng(1);
  std::vector<Placed> servers;
  Plan plan;
  for (int tries = 0; tries < 2000 && plan.stages.size() < 2; tries++) {
    servers.clear();
    for (int i = 0; i < 7; i++) {
      const auto length = static_cast<int32_t>(1 + rng.below(4));
      const auto first = static_cast<int32_t>(rng.below(static_cast<uint64_t>(11 - length)));
      servers.push_back({id_of(i), {first, first + length}, 1 + 19 * rng.uniform()});
    }
    plan = plan_moves(10, servers, {});
    if (plan.now == 0) plan = {};
  }
  ASSERT_GT(plan.stages.size(), 1u);
  Swarm swarm(servers, 10);
  size_t planned = 0;
  for (const auto& stage : plan.stages) planned += stage.size();
  const auto moves = swarm.run(2h, 90s);
  ASSERT_GE(moves.size(), planned);
  EXPECT_GE(plan_moves(10, swarm.servers, {}).now, plan.after - 0.01);
}

// One who is to move never does: after the patience the others plan anew and live with it.
TEST(Rebalancer, APlanThatDoesNotProceedIsGivenUp) {
  Swarm swarm({{id_of(1), {0, 2}, 5}, {id_of(2), {0, 2}, 5}}, 4);
  const Plan plan = plan_moves(4, swarm.servers, {});
  ASSERT_EQ(plan.stages.size(), 1u);
  const size_t mover = plan.stages[0][0].server == id_of(1) ? 0 : 1;
  Rebalancer other(swarm.servers[1 - mover].id, {}, Rng(9));
  for (int i = 0; i < 3600; i++) {
    swarm.clock.advance(1s);
    EXPECT_FALSE(other.decide(4, swarm.servers, swarm.clock.now()));
  }
  EXPECT_GE(other.searches(), 2u);
  EXPECT_LE(other.searches(), 5u);
}

ServerInfo served(int number, BlockRange blocks, double decode, ServerState state) {
  ServerInfo info;
  info.peer.id = id_of(number);
  info.lease.blocks = blocks;
  info.lease.state = state;
  info.lease.speed.decode = decode;
  return info;
}

TEST(PlacedServers, SpeedsAreThoseOfAWholeSpan) {
  std::vector<ServerInfo> servers = {
      served(1, {0, 4}, 400, ServerState::kOnline), served(2, {4, 6}, 400, ServerState::kOnline),
      served(3, {4, 6}, 60, ServerState::kOnline), served(4, {2, 4}, 0, ServerState::kJoining),
      served(5, {2, 4}, 70, ServerState::kLeaving)};
  servers[1].lease.network_bytes_per_s = 5e4;
  servers[2].lease.pinned = true;
  const auto placed = swarm::placed(servers, 1000);
  ASSERT_EQ(placed.size(), 4u);  // who leaves is not counted
  EXPECT_EQ(placed[0].tokens_per_s, 100);
  EXPECT_EQ(placed[1].tokens_per_s, 50);  // the network's share
  EXPECT_EQ(placed[2].tokens_per_s, 30);
  EXPECT_FALSE(placed[2].movable);
  EXPECT_EQ(placed[3].tokens_per_s, 50);  // not known: the median
  EXPECT_FALSE(placed[3].online);
}

}  // namespace
}  // namespace meadow::swarm
