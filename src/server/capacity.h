// How many blocks and how much cache fit into a machine's memory.
// Thread rule: pure functions, but for available_memory_bytes(), which asks the system.
#pragma once
#include <cstdint>

#include "base/result.h"
#include "engine/span_executor.h"

namespace meadow::server {

// Left alone for the rest of the machine, whatever is served.
inline constexpr uint64_t kDefaultReserveBytes = uint64_t{1} << 30;
// Cache positions per block that a server wants to offer, if memory allows.
inline constexpr int64_t kWantedCacheTokens = 32768;

struct Capacity {
  int32_t blocks = 0;
  int64_t cache_tokens = 0;  // per block; a multiple of a page
};

// Memory that programs may still take; 0 where the system does not say.
uint64_t available_memory_bytes();

// As many of `n_blocks` blocks as fit `memory_bytes` with kWantedCacheTokens each; if not even one
// does, one with as much cache as fits. kResourceExhausted, with both numbers, if that is less than
// `min_cache_tokens`.
Result<Capacity> fit(uint64_t memory_bytes, const engine::BlockCost& cost, int32_t n_blocks,
                     int64_t min_cache_tokens);
// The cache that fits beside `blocks` blocks, at most kWantedCacheTokens.
Result<Capacity> fit_cache(uint64_t memory_bytes, const engine::BlockCost& cost, int32_t blocks,
                           int64_t min_cache_tokens);

}  // namespace meadow::server
