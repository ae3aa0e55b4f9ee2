#include "server/capacity.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace meadow::server {
namespace {

constexpr int64_t kPage = 64;

}  // namespace

uint64_t available_memory_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string key; in >> key;) {
    uint64_t kib = 0;
    if (key == "MemAvailable:" && in >> kib) return kib * 1024;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

Result<Capacity> fit(uint64_t memory_bytes, const engine::BlockCost& cost, int32_t n_blocks,
                     int64_t min_cache_tokens) {
  const uint64_t per_block =
      std::max<uint64_t>(1, cost.weight_bytes + cost.cache_token_bytes * kWantedCacheTokens);
  const auto blocks = static_cast<int32_t>(
      std::clamp<uint64_t>(memory_bytes / per_block, 1, static_cast<uint64_t>(n_blocks)));
  return fit_cache(memory_bytes, cost, blocks, min_cache_tokens);
}

Result<Capacity> fit_cache(uint64_t memory_bytes, const engine::BlockCost& cost, int32_t blocks,
                           int64_t min_cache_tokens) {
  const uint64_t weights = cost.weight_bytes * static_cast<uint64_t>(blocks);
  const uint64_t rest = memory_bytes > weights ? memory_bytes - weights : 0;
  const uint64_t per_token =
      std::max<uint64_t>(1, cost.cache_token_bytes * static_cast<uint64_t>(blocks));
  const auto tokens =
      static_cast<int64_t>(std::min<uint64_t>(rest / per_token, kWantedCacheTokens)) / kPage *
      kPage;
  if (tokens < min_cache_tokens)
    return fail(Code::kResourceExhausted,
                "{} blocks need {} bytes of weights and {} bytes of cache for {} positions, the "
                "memory to be used is {} bytes: serve fewer blocks, or lower --reserve",
                blocks, weights, per_token * static_cast<uint64_t>(min_cache_tokens),
                min_cache_tokens, memory_bytes);
  return Capacity{blocks, tokens};
}

}  // namespace meadow::server
