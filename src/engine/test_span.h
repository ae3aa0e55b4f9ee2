// What the tests of this folder share: executors over random models, hidden states, runs. A failure
// here ends the test program.
// Thread rule: as SpanExecutor.
#pragma once
#include <algorithm>
#include <bit>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "engine/span_executor.h"
#include "model/testing/test_model.h"

namespace meadow::engine::testing {

using model::testing::TestModel;

inline SessionId session_id(uint8_t n) {
  SessionId id;
  id.bytes[0] = n;
  return id;
}

inline std::unique_ptr<SpanExecutor> make_executor(std::shared_ptr<format::ModelFile> file,
                                                   SpanOptions options) {
  if (options.blocks.empty()) options.blocks = {0, model::hyperparameters(*file)->n_blocks};
  if (options.cache_tokens == 0) options.cache_tokens = 1024;
  auto executor = SpanExecutor::load(std::move(file), options);
  MEADOW_CHECK(executor.has_value());
  return std::move(*executor);
}

// f32 [n_embd, n], about normal in size.
inline std::vector<float> random_hidden(int64_t n_embd, int64_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(static_cast<size_t>(n_embd * n));
  for (float& v : out) v = static_cast<float>(4 * rng.uniform() - 2);
  return out;
}

// The positions [first, last) of a sequence f32 [n_embd, …].
inline std::span<const float> positions(const std::vector<float>& hidden, int64_t n_embd,
                                        int64_t first, int64_t last) {
  return std::span(hidden).subspan(static_cast<size_t>(first * n_embd),
                                   static_cast<size_t>((last - first) * n_embd));
}

// Feeds `hidden` to an open session from `first` on in calls of the given sizes (the last one
// repeats) and returns all outputs.
inline std::vector<float> feed(SpanExecutor& executor, SessionId id, int64_t first,
                               std::span<const float> hidden, const std::vector<int64_t>& sizes) {
  const auto width = static_cast<size_t>(executor.hyperparameters().n_embd);
  std::vector<float> out;
  for (size_t at = 0, call = 0; at < hidden.size(); call++) {
    const auto size = static_cast<size_t>(sizes[std::min(call, sizes.size() - 1)]) * width;
    const auto part = hidden.subspan(at, std::min(size, hidden.size() - at));
    auto result = executor.forward(id, first + static_cast<int64_t>(at / width), part, nullptr);
    MEADOW_CHECK(result.has_value());
    out.insert(out.end(), result->begin(), result->end());
    at += part.size();
  }
  return out;
}

// Number of values whose bits differ; all of them if the sizes do.
inline size_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  size_t count = 0;
  for (size_t i = 0; i < a.size(); i++)
    count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  return count;
}

}  // namespace meadow::engine::testing
