// Which content each block of the model has, by the hashes in the leases: servers whose files
// differ never serve one chain. A block is pinned at first sight, to the content that most of its
// servers then have, and stays so: a session's replay finds the very weights it began with.
// Thread rule: one thread at a time (Membership's lock). Bounded by kMaxBlocks.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "swarm/lease.h"

namespace meadow::swarm {

class ContentPins {
 public:
  // One's own blocks: what they hold is right.
  void pin(BlockRange blocks, const std::vector<BlockHash>& hashes);
  // Pins blocks not pinned yet by the majority of these leases (a tie goes to the lower hash).
  void elect(const std::vector<const Lease*>& leases);
  // Nothing, or why the lease does not fit.
  std::optional<std::string> objection(const Lease& lease) const;

 private:
  std::map<int32_t, BlockHash> pins_;
};

}  // namespace meadow::swarm
