// One value per element: the outputs of a span have the same bits however the model is cut, the
// prompt chunked, the work spread over threads, whatever instruction set computes, and for a
// replay.
#include <gtest/gtest.h>

#include "engine/model_ends.h"
#include "engine/test_span.h"
#include "kernels/target.h"

namespace meadow::engine {
namespace {

using testing::differing;
using testing::feed;
using testing::make_executor;
using testing::positions;
using testing::random_hidden;
using testing::session_id;
using testing::TestModel;

constexpr int64_t kPositions = 150;  // more than two pages, the last one partly filled

struct Case {
  std::string label;
  TestModel model;
  DType cache = DType::kF16;
};

// For types in blocks of 256 values.
void wide(TestModel& m, DType type) {
  m.type = type, m.n_blocks = 2, m.n_embd = 256, m.n_ff = 256, m.head_dim = 64, m.n_vocab = 8;
}

std::vector<Case> cases() {
  const auto make = [](std::string label, auto change, DType cache = DType::kF16) {
    Case c{std::move(label), {}, cache};
    change(c.model);
    return c;
  };
  return {
      make("llama_q4_1", [](TestModel&) {}),
      make(
          "llama_q4_1_cache_f32", [](TestModel&) {}, DType::kF32),
      make(
          "llama_f32_factors", [](TestModel& m) { m.type = DType::kF32, m.rope_factors = true; },
          DType::kF32),
      make("llama_f16_linear", [](TestModel& m) { m.type = DType::kF16, m.linear_scale = 4; }),
      make("qwen2_q8_0",
           [](TestModel& m) { m.architecture = "qwen2", m.type = DType::kQ8_0, m.head_dim = 16; }),
      make(
          "llama_q8_0_cache_q8_0", [](TestModel& m) { m.type = DType::kQ8_0; }, DType::kQ8_0),
      make("qwen3_q4_0", [](TestModel& m) { m.architecture = "qwen3", m.type = DType::kQ4_0; }),
      make(
          "qwen3_bf16",
          [](TestModel& m) { m.architecture = "qwen3", m.type = DType::kBF16, m.n_head = 6; },
          DType::kF32),
      make("llama_mxfp4", [](TestModel& m) { m.type = DType::kMXFP4; }),
      make("qwen3_iq4_nl", [](TestModel& m) { m.architecture = "qwen3", m.type = DType::kIQ4_NL; }),
      make("qwen2_q5_1", [](TestModel& m) { m.architecture = "qwen2", m.type = DType::kQ5_1; }),
      make("llama_q4_k", [](TestModel& m) { wide(m, DType::kQ4_K); }),
      make("qwen2_q2_k", [](TestModel& m) { m.architecture = "qwen2", wide(m, DType::kQ2_K); }),
      make("qwen3_q6_k", [](TestModel& m) { m.architecture = "qwen3", wide(m, DType::kQ6_K); }),
  };
}

class Bits : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    file_ = model::testing::make_file(GetParam().model);
    n_embd_ = GetParam().model.n_embd;
    hidden_ = random_hidden(n_embd_, kPositions, 7);
    whole_ = run({}, {kPositions}, 1);
    ASSERT_EQ(whole_.size(), hidden_.size());
  }

  SpanOptions options(BlockRange blocks, int threads, int64_t chunk = 256) const {
    return {blocks, GetParam().cache, threads, 0, chunk};
  }

  // The whole input through one span, in calls of the given sizes.
  std::vector<float> run(BlockRange blocks, const std::vector<int64_t>& calls, int threads,
                         int64_t chunk = 256, const std::vector<float>* input = nullptr) {
    auto executor = make_executor(file_, options(blocks, threads, chunk));
    EXPECT_TRUE(executor->open(session_id(1), executor->blocks(), kPositions));
    return feed(*executor, session_id(1), 0, input ? *input : hidden_, calls);
  }

  std::shared_ptr<format::ModelFile> file_;
  int64_t n_embd_ = 0;
  std::vector<float> hidden_, whole_;
};

TEST_P(Bits, EveryCutIntoTwoSpansAndIntoSingleBlocks) {
  const int32_t blocks = GetParam().model.n_blocks;
  for (int32_t cut = 1; cut < blocks; cut++) {
    const auto middle = run({0, cut}, {kPositions}, 1);
    EXPECT_EQ(differing(run({cut, blocks}, {31}, 2, 256, &middle), whole_), 0u) << "cut " << cut;
  }
  std::vector<float> stream = hidden_;
  for (int32_t block = 0; block < blocks; block++)
    stream = run({block, block + 1}, {block + 40}, 1, 256, &stream);
  EXPECT_EQ(differing(stream, whole_), 0u);
}

TEST_P(Bits, PartsOfOneHeldSpan) {
  auto executor = make_executor(file_, options({}, 1));
  std::vector<float> stream = hidden_;
  for (int32_t block = 0; block < GetParam().model.n_blocks; block++) {
    const SessionId id = session_id(static_cast<uint8_t>(block));
    ASSERT_TRUE(executor->open(id, {block, block + 1}, kPositions));
    stream = feed(*executor, id, 0, stream, {kPositions});
  }
  EXPECT_EQ(differing(stream, whole_), 0u);
}

TEST_P(Bits, AnyChunkingAndOneByOne) {
  EXPECT_EQ(differing(run({}, {1}, 1), whole_), 0u);
  for (int64_t chunk : {1, 7, 64, 100})
    EXPECT_EQ(differing(run({}, {kPositions}, 1, chunk), whole_), 0u) << "chunk " << chunk;
  Rng rng(3);
  for (int round = 0; round < 3; round++) {
    std::vector<int64_t> calls(12);
    for (int64_t& n : calls) n = 1 + static_cast<int64_t>(rng.below(40));
    EXPECT_EQ(differing(run({}, calls, 1, 1 + static_cast<int64_t>(rng.below(30))), whole_), 0u);
  }
}

TEST_P(Bits, AnyNumberOfThreads) {
  for (int threads : {2, 3}) {
    EXPECT_EQ(differing(run({}, {kPositions}, threads), whole_), 0u) << threads << " threads";
    EXPECT_EQ(differing(run({}, {100, 1}, threads), whole_), 0u) << threads << " threads, steps";
  }
}

TEST_P(Bits, EveryTarget) {
  const kernels::Target before = kernels::active_target();
  for (kernels::Target target : kernels::runnable_targets()) {
    ASSERT_TRUE(kernels::force_target(target));
    EXPECT_EQ(differing(run({}, {120, 1, 29}, 2), whole_), 0u) << kernels::name(target);
  }
  ASSERT_TRUE(kernels::force_target(before));
}

TEST_P(Bits, RollbackAndReplay) {
  auto executor = make_executor(file_, options({}, 2));
  const SessionId id = session_id(1);
  ASSERT_TRUE(executor->open(id, executor->blocks(), kPositions));
  const auto other = random_hidden(n_embd_, kPositions, 8);
  // another history, then back to a position inside a page, then to the start
  for (int64_t back : {100, 64, 37, 1, 0}) {
    feed(*executor, id, std::min(back, executor->position(id)),
         positions(other, n_embd_, back, kPositions), {kPositions});
    auto prefix = executor->forward(id, 0, positions(hidden_, n_embd_, 0, back + 1), nullptr);
    ASSERT_TRUE(prefix);
    const auto rest =
        feed(*executor, id, back + 1, positions(hidden_, n_embd_, back + 1, kPositions), {20, 1});
    EXPECT_EQ(differing(rest, {whole_.begin() + (back + 1) * n_embd_, whole_.end()}), 0u);
    ASSERT_EQ(executor->position(id), kPositions);
  }
  // A replay in one go on a replacement that held other blocks' pages before.
  auto spare = make_executor(file_, options({}, 1));
  ASSERT_TRUE(spare->open(session_id(2), spare->blocks(), kPositions));
  feed(*spare, session_id(2), 0, other, {kPositions});
  spare->close(session_id(2));
  ASSERT_TRUE(spare->open(id, spare->blocks(), kPositions));
  EXPECT_EQ(differing(feed(*spare, id, 0, hidden_, {kPositions}), whole_), 0u);
}

TEST_P(Bits, SessionsDoNotTouchEachOther) {
  auto executor = make_executor(file_, options({}, 1));
  const auto other = random_hidden(n_embd_, kPositions, 9);
  ASSERT_TRUE(executor->open(session_id(1), executor->blocks(), kPositions));
  ASSERT_TRUE(executor->open(session_id(2), executor->blocks(), kPositions));
  std::vector<float> out;
  for (int64_t at = 0; at < kPositions; at += 25) {
    feed(*executor, session_id(2), at, positions(other, n_embd_, at, at + 25), {25});
    const auto part =
        feed(*executor, session_id(1), at, positions(hidden_, n_embd_, at, at + 25), {9});
    out.insert(out.end(), part.begin(), part.end());
  }
  EXPECT_EQ(differing(out, whole_), 0u);
}

TEST_P(Bits, TypeOfTheCacheIsSeen) {
  auto c = GetParam();
  const DType other = c.cache == DType::kF16 ? DType::kF32 : DType::kF16;
  auto executor = make_executor(file_, {{}, other, 1, 0, 256});
  ASSERT_TRUE(executor->open(session_id(1), executor->blocks(), kPositions));
  EXPECT_NE(differing(feed(*executor, session_id(1), 0, hidden_, {kPositions}), whole_), 0u);
}

TEST_P(Bits, LogitsOfManyPositionsAtOnce) {
  auto one = ModelEnds::load(file_, 1), two = ModelEnds::load(file_, 2);
  ASSERT_TRUE(one && two);
  const auto all = (*one)->logits(positions(hidden_, n_embd_, 0, 20));
  ASSERT_TRUE(all);
  std::vector<float> single;
  for (int64_t i = 0; i < 20; i++) {
    const auto logits = (*two)->logits(positions(hidden_, n_embd_, i, i + 1));
    ASSERT_TRUE(logits);
    single.insert(single.end(), logits->begin(), logits->end());
  }
  EXPECT_EQ(differing(single, *all), 0u);
}

INSTANTIATE_TEST_SUITE_P(Models, Bits, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.label; });

}  // namespace
}  // namespace meadow::engine
