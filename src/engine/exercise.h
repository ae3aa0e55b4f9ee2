// Bytes of a stranger as a model: loads what it says and runs a few positions. For the fuzz target
// and the test of damaged files.
// Thread rule: one caller at a time.
#pragma once
#include <memory>

#include "base/check.h"
#include "engine/model_ends.h"
#include "engine/span_executor.h"

namespace meadow::engine {

// Runs three positions through all blocks and the head; any failure is a Result. Whatever succeeds
// is finite and of the right size.
inline Result<std::vector<float>> exercise(Bytes bytes) {
  MEADOW_TRY(auto file,
             format::ModelFile::open(std::make_shared<format::MemorySource>(std::move(bytes))));
  MEADOW_TRY(auto ends, ModelEnds::load(file, 1));
  const model::Hyperparameters& h = ends->hyperparameters();
  MEADOW_TRY_VOID(block_cost(*file, DType::kF16));
  MEADOW_TRY(auto executor, SpanExecutor::load(file, {{0, h.n_blocks}, DType::kF16, 1, 64, 2}));
  MEADOW_TRY_VOID(executor->open({}, {0, h.n_blocks}, std::min<int64_t>(h.n_ctx, 3)));
  const std::vector<int32_t> ids(static_cast<size_t>(std::min<int64_t>(h.n_ctx, 3)), 0);
  MEADOW_TRY(auto hidden, ends->embed(ids));
  MEADOW_TRY(auto out, executor->forward({}, 0, hidden, nullptr));
  MEADOW_TRY(auto logits, ends->logits(out));
  MEADOW_CHECK(logits.size() == ids.size() * static_cast<size_t>(h.n_vocab));
  for (float v : logits) MEADOW_CHECK(v - v == 0);
  return logits;
}

}  // namespace meadow::engine
