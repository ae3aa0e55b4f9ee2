#include "client/local_chain.h"

namespace meadow::client {

Result<std::unique_ptr<LocalChain>> LocalChain::load(std::shared_ptr<format::ModelFile> model,
                                                     int threads, DType cache_type,
                                                     int64_t max_tokens,
                                                     std::shared_ptr<ThreadPool> crew) {
  MEADOW_TRY(auto parameters, model::hyperparameters(*model));
  engine::SpanOptions options;
  options.blocks = {0, parameters.n_blocks};
  options.cache_type = cache_type;
  options.threads = threads;
  options.crew = std::move(crew);
  options.cache_tokens = max_tokens;
  MEADOW_TRY(auto executor, engine::SpanExecutor::load(std::move(model), options));
  MEADOW_TRY_VOID(executor->open(kSession, options.blocks, max_tokens));
  return std::unique_ptr<LocalChain>(new LocalChain(std::move(executor), max_tokens));
}

Result<std::vector<float>> LocalChain::step(int64_t first_position, std::span<const float> hidden,
                                            int64_t from, const CancelToken* cancel) {
  MEADOW_TRY(auto out, executor_->forward(kSession, first_position, hidden, cancel));
  const int64_t width = executor_->hyperparameters().n_embd;
  out.erase(out.begin(), out.begin() + (from - first_position) * width);
  return out;
}

}  // namespace meadow::client
