// All blocks in this process: the embedded default, and the reference that every other way of
// running the model must equal to the last bit.
// Thread rule: one thread. Owns the executor; shares the model file.
#pragma once
#include <memory>

#include "client/token_chain.h"
#include "engine/span_executor.h"
#include "format/model_file.h"

namespace meadow::client {

class LocalChain final : public TokenChain {
 public:
  // Checks and loads all blocks; `max_tokens` bounds the sequence. With a crew (of the ModelEnds
  // beside it, say) no threads are made. Blocks on the disk.
  static Result<std::unique_ptr<LocalChain>> load(std::shared_ptr<format::ModelFile> model,
                                                  int threads, DType cache_type, int64_t max_tokens,
                                                  std::shared_ptr<ThreadPool> crew = nullptr);

  Result<std::vector<float>> step(int64_t first_position, std::span<const float> hidden,
                                  int64_t from, const CancelToken* cancel) override;
  int64_t position() const override { return executor_->position(kSession); }
  int64_t max_tokens() const override { return max_tokens_; }

 private:
  static constexpr SessionId kSession{};

  LocalChain(std::unique_ptr<engine::SpanExecutor> executor, int64_t max_tokens)
      : executor_(std::move(executor)), max_tokens_(max_tokens) {}

  std::unique_ptr<engine::SpanExecutor> executor_;
  int64_t max_tokens_;
};

}  // namespace meadow::client
