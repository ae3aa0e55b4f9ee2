// Bytes of a stranger as a lease's body: never out of bounds, and what is accepted is in range.
#include "swarm/lease.h"

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto lease = meadow::swarm::parse_lease({data, size});
  if (lease) MEADOW_CHECK(meadow::swarm::check(*lease));
  return 0;
}
