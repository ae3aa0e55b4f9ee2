// How fast this machine runs the blocks that it holds, measured: before a server announces itself,
// and cached, so that a restart does not measure again. Thread rule: one thread; blocks while
// measuring. Borrows the executor, which must serve nobody.
#pragma once
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/dtype.h"
#include "engine/span_executor.h"
#include "format/model_file.h"
#include "swarm/lease.h"

namespace meadow::server {

struct Speeds {
  swarm::ServedSpeed speed;       // backward 0: not offered
  double memory_bytes_per_s = 0;  // of plain reading by all threads; 0: no memory to read
  bool operator==(const Speeds&) const = default;
};

// The batches that speeds are of; fewer where the model's context or the cache is smaller.
constexpr int64_t kPromptTokens = 128;    // prefill: one prompt
constexpr int64_t kDecodeTokens = 32;     // decode: one after another, behind that prompt
constexpr int64_t kForwardSequences = 4;  // forward: so many sequences at once …
constexpr int64_t kForwardTokens = 64;    // … of so many tokens

// Runs all held blocks. Medians of repetitions; about a second, a few for large models. Errors of
// SpanExecutor::forward, kCancelled.
Result<Speeds> measure_speeds(engine::SpanExecutor& executor, int threads, const Clock& clock,
                              const CancelToken* cancel);

// What speeds depend on, as one line: model, processor, weight types, threads, pinning, cache type,
// program version and numerics.
Result<std::string> speed_key(const format::ModelFile& file, int threads, bool pin,
                              DType cache_type, const std::string& version);

// Speeds kept in a JSON file under such keys. A file that cannot be read, or says nonsense, is as
// good as none.
std::optional<Speeds> cached_speeds(const std::string& path, const std::string& key);
// Adds or replaces; the newest kMaxCachedSpeeds stay. The file is replaced in one step. Errors name
// the file; the caller may go on without.
Result<void> cache_speeds(const std::string& path, const std::string& key, const Speeds& speeds);
constexpr size_t kMaxCachedSpeeds = 64;

}  // namespace meadow::server
