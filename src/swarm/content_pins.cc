#include "swarm/content_pins.h"

#include <algorithm>

namespace meadow::swarm {

void ContentPins::pin(BlockRange blocks, const std::vector<BlockHash>& hashes) {
  for (int32_t b = blocks.first; b < blocks.last; b++)
    pins_[b] = hashes[static_cast<size_t>(b - blocks.first)];
}

void ContentPins::elect(const std::vector<const Lease*>& leases) {
  std::map<int32_t, std::map<BlockHash, int>> votes;
  for (const Lease* lease : leases)
    for (int32_t b = lease->blocks.first; b < lease->blocks.last; b++)
      if (!pins_.contains(b))
        votes[b][lease->block_hashes[static_cast<size_t>(b - lease->blocks.first)]]++;
  for (const auto& [block, counts] : votes)
    pins_[block] = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                     return a.second < b.second;
                   })->first;
}

std::optional<std::string> ContentPins::objection(const Lease& lease) const {
  for (int32_t b = lease.blocks.first; b < lease.blocks.last; b++) {
    const auto pin = pins_.find(b);
    const BlockHash& hash = lease.block_hashes[static_cast<size_t>(b - lease.blocks.first)];
    if (pin != pins_.end() && pin->second != hash)
      return fmt::format("content {} of block {}, others have {}", hex(hash, 4), b,
                         hex(pin->second, 4));
  }
  return std::nullopt;
}

}  // namespace meadow::swarm
