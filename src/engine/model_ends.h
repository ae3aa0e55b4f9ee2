// The client's part of a model: what comes before the first block and after the last.
// Thread rule: one caller at a time. Owns its threads; shares the ModelFile, of which it reads the
// embeddings, the final norm and the head only.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "compute/cpu_ops.h"
#include "format/model_file.h"
#include "model/hyperparameters.h"

namespace meadow::engine {

class ModelEnds {
 public:
  // Reads the weights once (scales are checked); `threads` counts the caller. Blocks on the disk.
  // Failures as SpanExecutor::load.
  static Result<std::unique_ptr<ModelEnds>> load(std::shared_ptr<format::ModelFile> file,
                                                 int threads);

  const model::Hyperparameters& hyperparameters() const { return h_; }
  // For whoever computes in turn with this object, on the same thread.
  const std::shared_ptr<ThreadPool>& crew() const { return ops_.crew(); }

  // f32 [n_embd, n]: the hidden states that enter block 0. kInvalidArgument for an id outside the
  // vocabulary.
  Result<std::vector<float>> embed(std::span<const int32_t> ids);

  // f32 [n_vocab, n] of the hidden states f32 [n_embd, n] that left the last block: final norm and
  // head. For the next token give the last position only. kInvalidArgument for a wrong size, or
  // where a value is not finite.
  Result<std::vector<float>> logits(std::span<const float> hidden);
  // The same for many sequences, reading the head once: result i is that of hidden[i] alone, bit
  // for bit, and a failure is its sequence's alone.
  std::vector<Result<std::vector<float>>> logits(std::span<const std::span<const float>> hidden);

 private:
  ModelEnds(std::shared_ptr<format::ModelFile> file, int threads, model::Hyperparameters h);
  Result<void> load_weights();
  Result<void> check_hidden(std::span<const float> hidden) const;

  const std::shared_ptr<format::ModelFile> file_;  // outlives ops_
  const model::Hyperparameters h_;
  compute::CpuOps ops_;
  compute::Weight embeddings_;  // [n_embd, n_vocab]
  compute::Weight norm_;        // f32 [n_embd]
  compute::Weight head_;        // [n_embd, n_vocab]; the embeddings where they are tied
};

}  // namespace meadow::engine
