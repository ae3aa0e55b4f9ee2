// The virtual time of src/simulate, by the names that these tests use.
// Thread rule: one thread.
#pragma once
#include "simulate/world.h"

namespace meadow::sim {

using simulate::Peer;
using simulate::SimWorld;

}  // namespace meadow::sim
