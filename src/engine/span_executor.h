// Runs the consecutive blocks that a server holds, for many sessions: weights mapped from the model
// file, cache pages, positions that may move back. The same input gives the same bits whatever the
// cut of the model, the chunking, the other sessions in the batch, the threads and the processor
// (docs/numerics.md).
// Thread rule: one caller at a time; it drives the crew of threads inside. An idle executor uses no
// processor time. Owns sessions, pages and threads; shares the ModelFile.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "compute/cpu_ops.h"
#include "engine/page_pool.h"
#include "format/model_file.h"
#include "model/architecture.h"

namespace meadow::engine {

struct SpanOptions {
  BlockRange blocks;               // to hold
  DType cache_type = DType::kF16;  // or kF32, kQ8_0
  int threads = 1;                 // the caller included
  int64_t cache_tokens = 0;        // positions per held block that sessions may reserve in all
  int64_t chunk_tokens = 256;      // positions that go through the blocks together, at most
  bool pin = false;                // ties the other threads to a processor each
  // Computes in place of `threads` new ones; its other users are driven by the same thread. Two
  // crews would look for work at each other's cost.
  std::shared_ptr<ThreadPool> crew;
};

// Some positions of one session, as part of a batch.
struct Step {
  SessionId session;
  int64_t first_position = 0;
  std::span<const float> hidden;        // f32 [n_embd, n], n >= 1
  const CancelToken* cancel = nullptr;  // of this step alone
};

// In positions of one block, averaged over the held ones; rounded to pages.
struct CacheStats {
  int64_t tokens_total = 0;
  int64_t tokens_reserved = 0;
  int64_t tokens_used = 0;  // pages in use
  int64_t sessions = 0;
};

class SpanExecutor {
 public:
  // Loads the blocks, reading all their weights once (scales are checked). Blocks on the disk.
  // kInvalidArgument (blocks outside the model, impossible options), kUnsupported (architecture,
  // weight type, tensor), kCorrupt (the file).
  static Result<std::unique_ptr<SpanExecutor>> load(std::shared_ptr<format::ModelFile> file,
                                                    SpanOptions options);
  ~SpanExecutor();

  const model::Hyperparameters& hyperparameters() const { return h_; }
  BlockRange blocks() const { return options_.blocks; }

  // Starts a session over `part` of the held blocks that may grow to `max_tokens` positions, and
  // reserves its pages; memory is taken as it grows. kInvalidArgument (blocks not held, more tokens
  // than the model's context, an id in use), kResourceExhausted (another server may have room).
  Result<void> open(SessionId id, BlockRange part, int64_t max_tokens);
  // Forgets the session; its pages and its reservation are free again. Unknown ids are ignored.
  void close(SessionId id);

  // Runs n = hidden.size() / n_embd positions from first_position on through the session's blocks
  // and returns what leaves the last one. A first_position below the session's position forgets
  // what lies beyond it (rollback); one above is refused. Blocks until done or cancelled.
  //   hidden, result: f32 [n_embd, n], n >= 1
  // After success the session is at first_position + n; after an error at first_position, or, if
  // that was refused, where it was. kNotFound (no such session), kInvalidArgument (shape, position,
  // values that are not finite or do not fit the cache), kResourceExhausted (no memory),
  // kCancelled.
  Result<std::vector<float>> forward(SessionId id, int64_t first_position,
                                     std::span<const float> hidden, const CancelToken* cancel);

  // The same for many sessions, reading the weights once for all of them: result i is what
  // forward() would have returned for batch[i] alone, bit for bit, and a step that fails touches no
  // other. A session may have one step in a batch (kInvalidArgument for a second one). Sessions
  // over different parts of the held blocks run one part after the other. Blocks until all are
  // done: what nobody may wait long for belongs in a batch of few positions.
  std::vector<Result<std::vector<float>>> forward(std::span<const Step> batch);

  // Positions that the session holds; -1 if there is no such session.
  int64_t position(SessionId id) const;
  CacheStats stats() const;

 private:
  struct SpanSession {
    BlockRange part;
    int64_t max_tokens = 0;
    int64_t position = 0;
    std::vector<std::vector<compute::Page>> pages;  // by block of the part, then by position / 64
  };

  SpanExecutor(std::shared_ptr<format::ModelFile> file, SpanOptions options,
               model::Hyperparameters h, const model::Architecture& architecture);
  Result<void> load_weights();
  Result<void> check_request(const SpanSession& session, int64_t first_position,
                             std::span<const float> hidden) const;
  Result<void> grow(SpanSession& session, int64_t positions);
  // A step on its way through the blocks.
  struct Running {
    const Step* step;
    SpanSession* session;
    Result<std::vector<float>>* result;
    int64_t columns = 0;  // in all
    int64_t done = 0;
    int64_t now = 0;  // in the pass under way

    bool active() const { return result->has_value() && done < columns; }
  };
  size_t offset(int64_t column) const { return static_cast<size_t>(column * h_.n_embd); }
  Result<Running> start(const Step& step, std::span<const Running> before);
  void run_part(BlockRange part, std::span<Running> steps);
  void run_pass(BlockRange part, std::span<Running*> steps);
  Result<void> finish_pass(Running& step, size_t index, compute::Tensor hidden, int64_t column);

  const std::shared_ptr<format::ModelFile> file_;  // outlives ops_, which computes from its mapping
  const SpanOptions options_;
  const model::Hyperparameters h_;
  const model::Architecture& architecture_;
  compute::CpuOps ops_;
  PagePool pool_;                             // after ops_, which frees its pages
  std::vector<model::BlockWeights> weights_;  // by block - blocks().first
  compute::Weight inverse_frequency_;
  std::unordered_map<SessionId, SpanSession> sessions_;
};

// What one more block costs a server, for choosing how many fit.
struct BlockCost {
  uint64_t weight_bytes = 0;       // of the largest block of the file
  uint64_t cache_token_bytes = 0;  // of one cached position
};
// Reads the directory only. `cache_type` as in SpanOptions.
Result<BlockCost> block_cost(const format::ModelFile& file, DType cache_type);

}  // namespace meadow::engine
