// A swarm whose servers come and go, in virtual time: the placement code of the real servers, over
// news that takes its time to reach each of them.
// Thread rule: one thread a run.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "simulate/plot.h"

namespace meadow::simulate {

enum class Rule {
  kPlanned,    // the rule of real servers: join where it is worst, move by the common plan
  kJoinsOnly,  // newcomers go where it is worst, nobody moves later
  kNone,       // placed once by the rule for joins; who comes later goes anywhere
  kRandom,     // anywhere, from the start
};
std::string_view name(Rule rule);
std::optional<Rule> rule_from(std::string_view name);

struct ChurnOptions {
  Rule rule = Rule::kPlanned;
  int servers = 20;  // places; a server that ended is replaced by another after a while
  int32_t n_blocks = 24;
  double hours = 200;
  uint64_t seed = 1;
  double min_gain = 0.1;
  double life_hours = 10;    // mean, exponential
  double gap_hours = 0.5;    // mean, exponential: until a place has a server again
  double crash_share = 0.5;  // of the ends: without a word, so the lease has to run out
  int32_t shortest_span = 2, longest_span = 8;
  double slowest = 1, fastest = 20;  // tokens/s through the span, log-uniform
  double load_seconds = 10;          // per block that is not held already
  double news_seconds = 3;           // mean until another server knows; at most 4 times that
  double loss = 0;        // chance that a message is lost and news waits for the next one
  double lie_share = 0;   // of servers that announce 10 times their speed
  size_t samples = 2000;  // points of the series
};

struct ChurnReport {
  double tokens_per_s = 0;  // mean over time, whole swarm
  double of_capacity = 0;   // over what the servers present could pass at best (sum over blocks)
  double down_share = 0;    // of time in which some block had no server online
  uint64_t joins = 0, ends = 0, moves = 0, plans = 0;
  uint64_t moves_below = 0;    // whose plan gained less than the threshold: must be 0
  uint64_t moves_back = 0;     // to where it came from although nobody came or went: oscillation
  uint64_t moves_crossed = 0;  // made while another server followed another plan
  uint64_t uncovered = 0;      // blocks that lost their last holder by a move (news under way)
  uint64_t blocks_loaded = 0, blocks_kept = 0;  // by moves
  double last_move_hours = 0;
  uint64_t looks = 0, searches = 0;
  double look_mean_ms = 0, look_most_ms = 0;  // of processor; not part of what a seed decides
  Series throughput, capacity;                // over hours
};

// Runs to the end, or until `go_on` (asked about every thousand events with the share done; may be
// empty) returns false. The same options give the same report, times of this machine apart.
ChurnReport run_churn(const ChurnOptions& options, const std::function<bool(double)>& go_on);

}  // namespace meadow::simulate
