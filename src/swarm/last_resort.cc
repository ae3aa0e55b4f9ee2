#include "swarm/last_resort.h"

#include <algorithm>

namespace meadow::swarm {

void add_last_resorts(std::vector<ServerInfo>& online, std::vector<ServerInfo> left_out) {
  if (left_out.empty()) return;
  std::vector<bool> held(static_cast<size_t>(kMaxBlocks));
  for (const ServerInfo& server : online)
    for (int32_t b = server.lease.blocks.first; b < server.lease.blocks.last; b++)
      held[static_cast<size_t>(b)] = true;
  for (ServerInfo& server : left_out) {
    const BlockRange blocks = server.lease.blocks;
    const auto begin = held.begin() + blocks.first, end = held.begin() + blocks.last;
    if (std::find(begin, end, false) == end) continue;
    server.left_out = true;
    online.push_back(std::move(server));
  }
  std::sort(online.begin(), online.end(),
            [](const ServerInfo& a, const ServerInfo& b) { return a.peer.id < b.peer.id; });
}

}  // namespace meadow::swarm
