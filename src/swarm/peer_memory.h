// The members that answered, kept in a file across restarts: a peer that comes back finds its swarm
// though every bootstrap peer is gone. Addresses only; who answers there proves himself as ever.
// Thread rule: free functions; one caller per file.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace meadow::swarm {

constexpr size_t kMaxRemembered = 128;

// One line with the swarm (the hash of its key, so that the file tells nothing), then one address a
// line. Anything else, too many or an address that cannot be dialled: kCorrupt. Another swarm's:
// kFailedPrecondition.
Result<std::vector<std::string>> parse_remembered(std::string_view text, const Digest& swarm);
// Of at most kMaxRemembered addresses, the first ones.
std::string format_remembered(const std::vector<std::string>& addresses, const Digest& swarm);

// Reads the file; nothing if there is none. Blocks on the disk.
Result<std::vector<std::string>> load_remembered(const std::string& path, const Digest& swarm);
// Writes it whole or not at all. Blocks on the disk.
Result<void> store_remembered(const std::string& path, const std::vector<std::string>& addresses,
                              const Digest& swarm);

}  // namespace meadow::swarm
