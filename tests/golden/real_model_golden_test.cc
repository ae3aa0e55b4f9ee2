// SmolLM2-135M-Instruct, Q4_1, against llama.cpp along 1,000 forced ids: our logits are no further
// from those of the dequantised model in f32 than llama.cpp's own are, whose caches are in f32 and
// whose two ways of running (id by id, all at once) differ. Ours is one.
// Data: tools/golden/real_model.py. Skipped, and says so, if the model is not in models/.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/model_ends.h"
#include "engine/span_executor.h"
#include "golden_file.h"

namespace meadow::golden {
namespace {

constexpr char kModel[] = MEADOW_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";

// Of logits [n_best] per position; the shift that all logits of a position share changes no
// probability, so it is told apart.
struct Errors {
  double squares = 0, sum = 0, largest = 0, squares_without_shift = 0;
  size_t count = 0;

  void add(std::span<const float> values, std::span<const float> truth) {
    double shift = 0;
    for (size_t i = 0; i < values.size(); i++) shift += double{values[i]} - truth[i];
    shift /= static_cast<double>(values.size());
    for (size_t i = 0; i < values.size(); i++) {
      const double e = double{values[i]} - truth[i];
      squares += e * e, sum += std::abs(e);
      squares_without_shift += (e - shift) * (e - shift);
      if (!(std::abs(e) <= largest)) largest = std::abs(e);
    }
    count += values.size();
  }
  double rms() const { return std::sqrt(squares / static_cast<double>(count)); }
  double mean() const { return sum / static_cast<double>(count); }
  double rms_without_shift() const {
    return std::sqrt(squares_without_shift / static_cast<double>(count));
  }
  void print(const char* name) const {
    std::printf("%-22s rms %.4f mean %.4f max %.4f, without shift rms %.4f\n", name, rms(), mean(),
                largest, rms_without_shift());
  }
};

TEST(RealModel, NoFurtherFromTheDequantisedModelThanLlamaCpp) {
  if (!std::filesystem::exists(kModel))
    GTEST_SKIP() << "no " << kModel << "; tools/setup fetches it";
  GoldenFile golden(data_path("smollm2-135m-q4_1.golden"), "MEADOWR1");
  const auto head = golden.read<uint32_t>(2);
  const size_t n = head[0], n_best = head[1];
  const auto ids = golden.read<int32_t>(n);
  const auto best = golden.read<uint16_t>(n * n_best);
  const auto truth = golden.read<float>(n * n_best);
  const auto steps = golden.read<float>(n * n_best), batch = golden.read<float>(n * n_best);
  ASSERT_TRUE(golden.at_end());
  ASSERT_EQ(n, 1000u);

  auto file = format::ModelFile::open(kModel);
  ASSERT_TRUE(file) << file.error().text();
  auto ends = engine::ModelEnds::load(*file, 2);
  ASSERT_TRUE(ends) << ends.error().text();
  const auto& h = (*ends)->hyperparameters();
  const BlockRange blocks{0, h.n_blocks};
  auto executor = engine::SpanExecutor::load(*file, {blocks, DType::kF32, 2, 1024, 256});
  ASSERT_TRUE(executor) << executor.error().text();
  ASSERT_TRUE((*executor)->open({}, blocks, 1024));
  const auto embedded = (*ends)->embed(ids);
  ASSERT_TRUE(embedded);
  const auto hidden = (*executor)->forward({}, 0, *embedded, nullptr);
  ASSERT_TRUE(hidden) << hidden.error().text();

  Errors ours, by_steps, at_once;
  const auto width = static_cast<size_t>(h.n_embd);
  for (size_t t = 0; t < n; t++) {
    const auto logits = (*ends)->logits(std::span(*hidden).subspan(t * width, width));
    ASSERT_TRUE(logits);
    std::vector<float> mine;
    for (size_t i = 0; i < n_best; i++) mine.push_back((*logits)[best[t * n_best + i]]);
    const auto row = [&](const std::vector<float>& all) {
      return std::span(all).subspan(t * n_best, n_best);
    };
    ours.add(mine, row(truth));
    by_steps.add(row(steps), row(truth));
    at_once.add(row(batch), row(truth));
  }
  ours.print("ours");
  by_steps.print("llama.cpp, id by id");
  at_once.print("llama.cpp, all at once");
  // What moves probabilities: below both. With the shift, the two of llama.cpp differ by more than
  // ours does from either, so ours must not exceed the larger.
  EXPECT_LE(ours.rms_without_shift(), by_steps.rms_without_shift());
  EXPECT_LE(ours.rms_without_shift(), at_once.rms_without_shift());
  EXPECT_LE(ours.rms(), std::max(by_steps.rms(), at_once.rms()));
  EXPECT_LE(ours.mean(), std::max(by_steps.mean(), at_once.mean()));
  EXPECT_LE(ours.largest, std::max(by_steps.largest, at_once.largest));
}

}  // namespace
}  // namespace meadow::golden
