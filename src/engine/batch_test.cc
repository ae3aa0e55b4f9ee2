// Sessions that go through the blocks together get the bits that each gets alone, and what goes
// wrong with one stays with it: random batches of prompt pieces, single positions, rollbacks and
// bad steps.
#include <gtest/gtest.h>

#include <limits>

#include "engine/model_ends.h"
#include "engine/test_span.h"

namespace meadow::engine {
namespace {

using testing::differing;
using testing::feed;
using testing::make_executor;
using testing::positions;
using testing::random_hidden;
using testing::session_id;
using testing::TestModel;

constexpr int64_t kMost = 140;  // positions of a session: more than two pages

struct Case {
  std::string label;
  DType type, cache;
  int threads;
  int64_t chunk;
};

// A session under test, and a twin that runs alone.
struct Pair {
  SessionId id;
  BlockRange part;
  std::vector<float> input;  // f32 [n_embd, kMost]
};

class Batch : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    model_.type = GetParam().type;
    model_.outlier = 1e38f;  // a large value in the input then overflows inside the blocks
    file_ = model::testing::make_file(model_);
    const SpanOptions options{{}, GetParam().cache, GetParam().threads, 8192, GetParam().chunk};
    together_ = make_executor(file_, options);
    alone_ = make_executor(file_, {{}, GetParam().cache, 1, 8192, 64});
  }

  void open(int count) {
    for (int i = 0; i < count; i++) {
      // Most over all blocks, some over a part.
      const BlockRange part = i % 4 == 3 ? BlockRange{1, 3} : together_->blocks();
      Pair pair{session_id(static_cast<uint8_t>(i + 1)), part,
                random_hidden(model_.n_embd, kMost, static_cast<uint64_t>(100 + i))};
      for (size_t at = 0; at < pair.input.size(); at += static_cast<size_t>(model_.n_embd))
        pair.input[at] = 0;  // where the outlier is
      ASSERT_TRUE(together_->open(pair.id, part, kMost));
      ASSERT_TRUE(alone_->open(pair.id, part, kMost));
      sessions_.push_back(std::move(pair));
    }
  }

  // A step that may be bad in one of several ways. `storage` keeps changed input.
  Step random_step(const Pair& pair, std::vector<std::vector<float>>& storage) {
    const int64_t at = together_->position(pair.id);
    const int64_t first =
        at == kMost || (at > 0 && rng_.below(4) == 0) ? rng_.below(static_cast<uint64_t>(at)) : at;
    const int64_t n = rng_.below(3) ? 1 : 1 + rng_.below(40);
    Step step{pair.id, first,
              positions(pair.input, model_.n_embd, first, std::min(first + n, kMost)), nullptr};
    const auto changed = [&](size_t index, float value) {
      storage.emplace_back(step.hidden.begin(), step.hidden.end());
      storage.back()[index] = value;
      step.hidden = storage.back();
    };
    switch (rng_.below(12)) {
      case 0:
        changed(rng_.below(step.hidden.size()), std::numeric_limits<float>::quiet_NaN());
        break;
      case 1:  // the last position overflows in the cache or in the blocks
        changed(step.hidden.size() - static_cast<size_t>(model_.n_embd), 1e3f);
        break;
      case 2:
        step.first_position = at + 1;
        break;
      case 3:
        step.session = session_id(200);  // unknown
        break;
      case 4:
        step.cancel = &cancelled_;
        break;
    }
    return step;
  }

  TestModel model_;
  std::shared_ptr<format::ModelFile> file_;
  std::unique_ptr<SpanExecutor> together_, alone_;
  std::vector<Pair> sessions_;
  CancelToken cancelled_;
  Rng rng_{21};
};

TEST_P(Batch, RandomBatchesEqualEachSessionAlone) {
  open(7);
  cancelled_.cancel();
  int good = 0, bad = 0;
  for (int round = 0; round < 60; round++) {
    std::vector<std::vector<float>> storage;
    storage.reserve(sessions_.size());
    std::vector<Step> steps;
    for (const Pair& pair : sessions_)
      if (rng_.below(4) != 0) steps.push_back(random_step(pair, storage));
    for (size_t i = steps.size(); i > 1; i--) std::swap(steps[i - 1], steps[rng_.below(i)]);
    const auto results = together_->forward(steps);
    ASSERT_EQ(results.size(), steps.size());
    for (size_t i = 0; i < steps.size(); i++) {
      const Step& s = steps[i];
      const auto expected = alone_->forward(s.session, s.first_position, s.hidden, s.cancel);
      ASSERT_EQ(results[i].has_value(), expected.has_value()) << "round " << round;
      if (expected) {
        ASSERT_EQ(differing(*results[i], *expected), 0u) << "round " << round;
      } else {
        ASSERT_EQ(results[i].error().code, expected.error().code);
      }
      ASSERT_EQ(together_->position(s.session), alone_->position(s.session));
      (expected ? good : bad)++;
    }
  }
  EXPECT_GT(good, 100);
  EXPECT_GT(bad, 50);
}

TEST_P(Batch, OneSessionHasOneStep) {
  open(2);
  const auto input = [&](size_t i) { return positions(sessions_[i].input, model_.n_embd, 0, 3); };
  const std::vector<Step> steps = {{sessions_[0].id, 0, input(0)},
                                   {sessions_[1].id, 0, input(1)},
                                   {sessions_[0].id, 0, input(0)}};
  const auto results = together_->forward(steps);
  EXPECT_TRUE(results[0] && results[1]);
  ASSERT_FALSE(results[2]);
  EXPECT_EQ(results[2].error().code, Code::kInvalidArgument);
  EXPECT_EQ(together_->position(sessions_[0].id), 3);
  EXPECT_TRUE(together_->forward(std::span<const Step>{}).empty());
}

TEST_P(Batch, LogitsOfManySequences) {
  auto one = ModelEnds::load(file_, 1), many = ModelEnds::load(file_, GetParam().threads);
  ASSERT_TRUE(one && many);
  std::vector<std::vector<float>> hidden;
  for (int64_t n : {1, 3, 1, 2, 1, 1})
    hidden.push_back(random_hidden(model_.n_embd, n, static_cast<uint64_t>(hidden.size())));
  hidden[2][5] = std::numeric_limits<float>::infinity();
  hidden[4].pop_back();
  const std::vector<std::span<const float>> views(hidden.begin(), hidden.end());
  const auto results = (*many)->logits(views);
  ASSERT_EQ(results.size(), hidden.size());
  for (size_t i = 0; i < hidden.size(); i++) {
    const auto expected = (*one)->logits(hidden[i]);
    ASSERT_EQ(results[i].has_value(), expected.has_value()) << i;
    EXPECT_EQ(expected.has_value(), i != 2 && i != 4);
    if (expected) {
      EXPECT_EQ(differing(*results[i], *expected), 0u) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Batch,
                         ::testing::Values(Case{"q4_0_f16", DType::kQ4_0, DType::kF16, 2, 32},
                                           Case{"q4_1_f32", DType::kQ4_1, DType::kF32, 1, 7},
                                           Case{"q8_0_q8_0", DType::kQ8_0, DType::kQ8_0, 1, 256},
                                           Case{"bf16_f16", DType::kBF16, DType::kF16, 2, 1}),
                         [](const auto& test) { return test.param.label; });

}  // namespace
}  // namespace meadow::engine
