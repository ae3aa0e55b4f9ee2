// Small files that a peer keeps beside its identity.
// Thread rule: one caller per file.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace meadow::swarm {

// Replaces the file whole or not at all: a crash leaves the old text or the new one. Mode 0600.
// Blocks on the disk. kUnavailable says what the system said.
Result<void> replace_file(const std::string& path, std::string_view text);

}  // namespace meadow::swarm
