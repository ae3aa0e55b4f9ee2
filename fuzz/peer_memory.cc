// Bytes of a damaged file as remembered peers: never out of bounds, and what is accepted can be
// written and read again.
#include "swarm/peer_memory.h"

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace meadow;
  const Digest swarm = sha256("garden");
  const auto peers = swarm::parse_remembered(as_text({data, size}), swarm);
  if (peers)
    MEADOW_CHECK(swarm::parse_remembered(swarm::format_remembered(*peers, swarm), swarm) == *peers);
  return 0;
}
