// What `meadow bench` measures of a model in this process: reading a prompt, decoding at a depth,
// decoding for many sequences at once. Random token ids: the speed does not depend on what they
// say.
// Thread rule: one thread. Owns the model's executor and ends; borrows nothing.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/rng.h"
#include "engine/model_ends.h"
#include "engine/span_executor.h"

namespace meadow::apps {

// Of repeated measurements.
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread(std::vector<double> values);  // not empty

struct BenchPlan {
  int64_t prompt = 0;              // tokens read in one go; 0: not measured
  int64_t gen = 0;                 // steps of every decode; 0: not measured
  std::vector<int64_t> depths;     // positions in the cache before a decode
  std::vector<int64_t> sequences;  // numbers of sequences to decode at once
  DType cache = DType::kF16;
  int threads = 1;
  bool pin = false;
};

// One thing to measure.
struct BenchTest {
  enum Kind { kPrefill, kDecode, kParallel } kind = kPrefill;
  int64_t steps = 0;  // tokens of the prompt, or steps of decoding
  int64_t depth = 0;
  int64_t sequences = 1;

  std::string name() const;  // "prefill 512", "decode 64 at depth 4096", "decode 64 x 16 sequences"
  int64_t tokens() const { return steps * sequences; }
};
std::vector<BenchTest> tests_of(const BenchPlan& plan);

class BenchModel {
 public:
  // kInvalidArgument if the plan needs more positions than the model was made for; else as
  // SpanExecutor::load.
  static Result<std::unique_ptr<BenchModel>> load(std::shared_ptr<format::ModelFile> file,
                                                  const BenchPlan& plan);

  // A few positions of everything, so that what is made once is made before the first measurement.
  Result<void> warm_up(const BenchPlan& plan);
  // Runs the test once; the time it took. What fills the cache up to a depth is not counted, and is
  // done once: later runs roll back.
  Result<Duration> run(const BenchTest& test, const Clock& clock, const CancelToken* cancel);

  // Bytes that one step of the test reads: weights of the blocks and the head once, a row of
  // embeddings and what is in the cache for every sequence. Of a prefill, in one chunk's time.
  uint64_t bytes_per_step(const BenchTest& test) const;
  // The weights among them, for one sequence.
  uint64_t weight_bytes_per_token() const { return weight_bytes_ + row_bytes_; }

 private:
  BenchModel() = default;
  int32_t random_id();
  // Feeds random tokens to session 0 from `first` on; logits after the last.
  Result<void> advance(int64_t first, int64_t n, const CancelToken* cancel);
  Result<void> step_all(int64_t sequences, int64_t position, const CancelToken* cancel);

  std::unique_ptr<engine::ModelEnds> ends_;
  std::unique_ptr<engine::SpanExecutor> executor_;
  uint64_t weight_bytes_ = 0;  // blocks, final norm, head
  uint64_t row_bytes_ = 0;     // of one embedding
  uint64_t cache_token_bytes_ = 0;
  Rng rng_{1};
};

}  // namespace meadow::apps
