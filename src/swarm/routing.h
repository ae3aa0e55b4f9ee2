// Chains through the swarm: the one of least expected time for inference, and drawn ones, in
// proportion to throughput, for forward and backward passes over many tokens.
// docs/routing.md has the model of time and the algorithm.
// Thread rule: pure functions, but for the caller's Rng.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "swarm/directory.h"
#include "swarm/peer_filter.h"

namespace meadow::swarm {

// One hop: these blocks at that server (all of what it holds, or a part).
struct Hop {
  PeerAddress server;
  BlockRange blocks;
  bool operator==(const Hop&) const = default;
};
using Chain = std::vector<Hop>;

constexpr double kHopSeconds = 0.0005;        // handling of one message at both ends
constexpr double kAssumedRttSeconds = 0.050;  // where nothing was measured
constexpr double kAssumedTokensPerS = 300;    // per block, where nothing is announced
constexpr double kLongestWaitSeconds = 10;    // that a queue is believed to cost
constexpr double kLastResortSeconds = 1000;   // price of a block at a server that failed lately

// What is assumed of a network. The defaults are Meadow's.
struct RouteCosts {
  double hop_seconds = kHopSeconds;
  double assumed_rtt_seconds = kAssumedRttSeconds;
  double assumed_tokens_per_s = kAssumedTokensPerS;
  // A link between servers that nobody measured is no longer than the way through the client.
  bool bounded_by_client = true;
};

struct RouteRequest {
  BlockRange blocks;             // to be covered, in order
  int64_t max_tokens = 0;        // servers without that much free cache are passed over
  std::vector<PeerId> avoid{};   // not to be used
  PeerFilter filter{};           // the user's lists; others are passed over
  std::optional<Codec> codec{};  // that servers must know; none: any
  bool push = true;              // servers pass outputs on; false: every hop is by the client
  double tokens_per_step = 1;    // positions that go through the chain together
  double bytes_per_token = 0;  // of a hidden state on the wire; 0: the time of transfer is left out
  std::optional<PeerId> previous{};  // the server before these blocks; none: the client
  std::optional<PeerId> next{};      // the server after them; none: the answer goes to the client
  RouteCosts costs{};
  // Up to so many states (servers times blocks of each) the search is exact; beyond them it keeps
  // the most promising ones only, to stay within milliseconds.
  size_t exact_up_to = 20000;
};

struct Route {
  Chain chain;
  double seconds_per_step = 0;  // expected
};

// The chain of least expected time (in very large swarms: nearly; see exact_up_to); any server may
// be entered and left anywhere inside its span. Ties: fewer hops, then lower peer ids. A server
// that failed lately (ServerInfo::left_out) is taken only where nobody else holds a block.
// kInvalidArgument: an empty or negative range. kResourceExhausted: held, but without room.
// kUnavailable names the blocks that nobody can take and how many servers were passed over for them
// ("blocks 10 to 14 have no server online").
Result<Route> find_route(std::span<const ServerInfo> servers, const RouteRequest& request);

// The expected time of one step through `chain`, by the same prices; every server of it must be
// among `servers` (kNotFound names the one that is not).
Result<double> chain_seconds(std::span<const ServerInfo> servers, const Chain& chain,
                             const RouteRequest& request);

// Which speed a drawn route is for.
enum class Pass { kForward, kBackward };
// How likely a server is to be drawn at a block that it holds; only ratios count. Positive.
using SpreadWeight = double (*)(const ServerInfo& server, Pass pass);
// Tokens/s through all blocks that it holds. Penalised servers weigh next to nothing.
double throughput_weight(const ServerInfo& server, Pass pass);

// A random chain for one batch. At every block a server's chance is its share of the weights of
// those that hold it, so that over many batches all are equally busy; servers change as seldom as
// that allows. Errors as find_route; max_tokens is not asked for (no cache is used).
Result<Route> draw_route(std::span<const ServerInfo> servers, const RouteRequest& request,
                         Pass pass, Rng& rng, SpreadWeight weight = throughput_weight);

// "0:10 via 1a2b3c4d => 10:30 via 99aabbcc"
std::string describe(const Chain& chain);

}  // namespace meadow::swarm
