// The simulated swarm of src/simulate, by the names that these tests use.
// Thread rule: one thread.
#pragma once
#include "sim/sim_world.h"
#include "simulate/members.h"

namespace meadow::sim {

using simulate::kSimBlocks;
using simulate::Node;
using simulate::NodeOptions;
using simulate::SimMemberPort;
using simulate::SimNetwork;
using simulate::SimSwarm;

}  // namespace meadow::sim
