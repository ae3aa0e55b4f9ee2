// The only holder of a block is never banned outright: better a server that failed than none.
// Thread rule: pure functions.
#pragma once
#include <vector>

#include "swarm/directory.h"

namespace meadow::swarm {

// Moves those of `left_out` to `online` that hold a block which none of `online` holds, marked
// ServerInfo::left_out, and puts `online` in order of peer ids again.
void add_last_resorts(std::vector<ServerInfo>& online, std::vector<ServerInfo> left_out);

}  // namespace meadow::swarm
