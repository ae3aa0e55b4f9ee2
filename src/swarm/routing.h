// The chain of least expected time for one request.
// Thread rule: pure functions.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "swarm/directory.h"

namespace meadow::swarm {

// One hop: these blocks at that server (all of what it holds, or a part).
struct Hop {
  PeerAddress server;
  BlockRange blocks;
  bool operator==(const Hop&) const = default;
};
using Chain = std::vector<Hop>;

struct RouteRequest {
  BlockRange blocks;          // to be covered, in order
  int64_t max_tokens = 0;     // servers without that much free cache are passed over
  std::vector<PeerId> avoid;  // not to be used
};

struct Route {
  Chain chain;
  double seconds_per_token = 0;  // expected
};

// Dynamic programme over block borders: entering server s costs half its measured (or assumed)
// round trip plus kHopSeconds, every block 1 / its announced speed, and the last server's answer
// half its round trip again; a server may be entered and left anywhere inside its span. Ties: fewer
// hops, then the lower peer id. kInvalidArgument: an empty or negative range. kUnavailable names
// the blocks nobody can take and how many servers were passed over for them ("blocks 10 to 14 have
// no server online").
Result<Route> find_route(std::span<const ServerInfo> servers, const RouteRequest& request);

constexpr double kHopSeconds = 0.0005;        // handling of one message at both ends
constexpr double kAssumedRttSeconds = 0.050;  // where nothing was measured
constexpr double kAssumedTokensPerS = 300;    // per block, where nothing is announced

// "0:10 via 1a2b3c4d => 10:30 via 99aabbcc"
std::string describe(const Chain& chain);

}  // namespace meadow::swarm
