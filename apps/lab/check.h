// lab check: what a lab on this machine is worth: its top rate, how exact its delays and rates are.
// Thread rule: main thread.
#pragma once
#include "base/result.h"

namespace meadow::labapp {

// Measures in labs of two and of `hosts` hosts and prints a table, or one JSON object. Blocks for
// about ten seconds. `quick`: fewer samples, for a look.
Result<void> check(size_t hosts, bool json, bool quick);

}  // namespace meadow::labapp
