// Tiny random models of every supported variant against transformers in f32 (F32 weights, f32
// cache): logits within 1e-4 of their range, in one pass and token by token, and the same greedy
// text. Data: tools/golden/tiny_models.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/model_ends.h"
#include "engine/span_executor.h"
#include "golden_file.h"

namespace meadow::golden {
namespace {

struct Golden {
  explicit Golden(const std::string& name) : file(data_path(name + ".golden"), "MEADOWG1") {
    const auto head = file.read<uint32_t>(4);
    n_vocab = head[0], every = head[3];
    ids = file.read<int32_t>(head[1]);
    greedy = file.read<int32_t>(head[2]);
    logits = file.read<float>(ids.size() / every * n_vocab);
    steps = file.read<float>(ids.size() / every * n_vocab);
  }

  GoldenFile file;
  size_t n_vocab, every;
  std::vector<int32_t> ids, greedy;
  std::vector<float> logits, steps;  // [n_vocab, ids / every]
};

class Model {
 public:
  explicit Model(const std::string& name) {
    auto file = format::ModelFile::open(data_path(name + ".gguf"));
    MEADOW_CHECK(file.has_value());
    auto ends = engine::ModelEnds::load(*file, 2);
    MEADOW_CHECK(ends.has_value());
    ends_ = std::move(*ends);
    const BlockRange blocks{0, ends_->hyperparameters().n_blocks};
    auto executor = engine::SpanExecutor::load(*file, {blocks, DType::kF32, 2, 128, 256});
    MEADOW_CHECK(executor.has_value());
    executor_ = std::move(*executor);
    MEADOW_CHECK(executor_->open({}, blocks, 128).has_value());
  }

  // f32 [n_vocab, n] of the ids, which follow position `first`.
  std::vector<float> logits(int64_t first, std::span<const int32_t> ids) {
    const auto hidden = ends_->embed(ids);
    MEADOW_CHECK(hidden.has_value());
    const auto out = executor_->forward({}, first, *hidden, nullptr);
    MEADOW_CHECK(out.has_value());
    const auto logits = ends_->logits(*out);
    MEADOW_CHECK(logits.has_value());
    return *logits;
  }

 private:
  std::unique_ptr<engine::ModelEnds> ends_;
  std::unique_ptr<engine::SpanExecutor> executor_;
};

class TinyModel : public ::testing::TestWithParam<const char*> {
 protected:
  const Golden golden_{GetParam()};
  Model model_{GetParam()};

  // Largest error of the kept positions, as a part of the range of the golden logits.
  double error(const std::vector<float>& ours, const std::vector<float>& theirs) const {
    double worst = 0;
    const size_t v = golden_.n_vocab;
    for (size_t row = 0; row < golden_.ids.size() / golden_.every; row++)
      for (size_t i = 0; i < v; i++) {
        const size_t position = (row + 1) * golden_.every - 1;
        const double e = std::abs(double{ours[position * v + i]} - theirs[row * v + i]);
        if (!(e <= worst)) worst = e;
      }
    const auto [low, high] = std::minmax_element(theirs.begin(), theirs.end());
    return worst / (*high - *low);
  }
};

TEST_P(TinyModel, OnePass) {
  ASSERT_TRUE(golden_.file.at_end());
  const double e = error(model_.logits(0, golden_.ids), golden_.logits);
  RecordProperty("error", std::to_string(e));
  EXPECT_LE(e, 1e-4);
}

TEST_P(TinyModel, TokenByTokenAndGreedy) {
  std::vector<float> all, last;
  for (size_t i = 0; i < golden_.ids.size(); i++) {
    last = model_.logits(static_cast<int64_t>(i), std::span(golden_.ids).subspan(i, 1));
    all.insert(all.end(), last.begin(), last.end());
  }
  EXPECT_LE(error(all, golden_.steps), 1e-4);
  std::vector<int32_t> greedy;
  for (auto position = static_cast<int64_t>(golden_.ids.size());
       greedy.size() < golden_.greedy.size(); position++) {
    greedy.push_back(
        static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin()));
    last = model_.logits(position, std::span(greedy).last(1));
  }
  EXPECT_EQ(greedy, golden_.greedy);
}

INSTANTIATE_TEST_SUITE_P(Variants, TinyModel,
                         ::testing::Values("llama", "llama-linear-rope", "llama3-rope", "mistral",
                                           "qwen2", "qwen3"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace meadow::golden
