// The blocks of this server behind the port that the session protocol knows.
// Thread rule: as SpanCompute: the worker thread only; free_cache_tokens() from any. Borrows the
// executor, which must outlive it.
#pragma once
#include <atomic>

#include "engine/span_executor.h"
#include "swarm/ports.h"

namespace meadow::server {

class EngineCompute final : public swarm::SpanCompute {
 public:
  explicit EngineCompute(engine::SpanExecutor& executor) : executor_(executor) { count(); }

  Result<void> open(SessionId session, BlockRange blocks, int64_t max_tokens) override {
    auto opened = executor_.open(session, blocks, max_tokens);
    count();
    return opened;
  }
  void close(SessionId session) override {
    executor_.close(session);
    count();
  }
  Result<std::vector<float>> forward(SessionId session, int64_t first_position,
                                     std::span<const float> hidden,
                                     const CancelToken& cancel) override {
    return executor_.forward(session, first_position, hidden, &cancel);
  }

  // Positions that one more session over all held blocks could reserve.
  int64_t free_cache_tokens() const { return free_.load(std::memory_order_relaxed); }

 private:
  void count() {
    const engine::CacheStats stats = executor_.stats();
    free_.store(stats.tokens_total - stats.tokens_reserved, std::memory_order_relaxed);
  }

  engine::SpanExecutor& executor_;
  std::atomic<int64_t> free_{0};
};

}  // namespace meadow::server
