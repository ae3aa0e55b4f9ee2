#include "engine/span_executor.h"

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

const SessionId kId = session_id(1);

template <class T>
Code code_of(const Result<T>& r) {
  return r ? Code::kInternal : r.error().code;
}

class Executor : public ::testing::Test {
 protected:
  std::unique_ptr<SpanExecutor> make(int64_t cache_tokens = 1024, DType cache = DType::kF16) {
    return make_executor(file_, {{0, 4}, cache, 1, cache_tokens, 32});
  }

  const TestModel model_;
  const std::shared_ptr<format::ModelFile> file_ = model::testing::make_file(model_);
  const std::vector<float> hidden_ = random_hidden(model_.n_embd, 200, 5);

  std::span<const float> input(int64_t first, int64_t last) const {
    return positions(hidden_, model_.n_embd, first, last);
  }
};

TEST_F(Executor, ReservesOnOpenTakesAsItGrowsFreesOnClose) {
  auto executor = make(256);
  EXPECT_EQ(executor->stats().tokens_total, 256);
  ASSERT_TRUE(executor->open(kId, {0, 4}, 130));  // three pages per block
  EXPECT_EQ(executor->stats().tokens_reserved, 192);
  EXPECT_EQ(executor->stats().tokens_used, 0);
  ASSERT_TRUE(executor->forward(kId, 0, input(0, 64), nullptr));
  EXPECT_EQ(executor->stats().tokens_used, 64);
  ASSERT_TRUE(executor->forward(kId, 64, input(64, 65), nullptr));
  EXPECT_EQ(executor->stats().tokens_used, 128);

  EXPECT_EQ(code_of(executor->open(session_id(2), {0, 4}, 65)), Code::kResourceExhausted);
  ASSERT_TRUE(executor->open(session_id(2), {0, 4}, 64));
  // a session over half of the blocks costs half
  EXPECT_EQ(code_of(executor->open(session_id(3), {0, 1}, 1)), Code::kResourceExhausted);
  executor->close(session_id(2));
  ASSERT_TRUE(executor->open(session_id(3), {1, 3}, 128));
  EXPECT_EQ(executor->stats().tokens_reserved, 256);
  EXPECT_EQ(executor->stats().sessions, 2);

  executor->close(kId);
  executor->close(session_id(3));
  executor->close(session_id(9));  // unknown: nothing happens
  EXPECT_EQ(executor->stats().tokens_reserved, 0);
  EXPECT_EQ(executor->stats().tokens_used, 0);
  ASSERT_TRUE(executor->open(kId, {0, 4}, 256));
  EXPECT_TRUE(executor->forward(kId, 0, input(0, 200), nullptr));
}

TEST_F(Executor, RefusesImpossibleOptions) {
  const auto load = [&](SpanOptions o) { return code_of(SpanExecutor::load(file_, o)); };
  const SpanOptions good{{0, 4}, DType::kF16, 1, 64, 32};
  ASSERT_TRUE(SpanExecutor::load(file_, good));
  const auto with = [&](auto change) {
    SpanOptions o = good;
    change(o);
    return load(o);
  };
  EXPECT_EQ(with([](auto& o) { o.blocks = {0, 5}; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& o) { o.blocks = {2, 2}; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& o) { o.blocks = {-1, 2}; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& o) { o.cache_type = DType::kQ4_0; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& o) { o.threads = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& o) { o.cache_tokens = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& o) { o.chunk_tokens = 0; }), Code::kInvalidArgument);
}

TEST_F(Executor, RefusesBadSessions) {
  auto executor = make_executor(file_, {{1, 3}, DType::kF16, 1, 4096, 32});
  EXPECT_EQ(code_of(executor->open(kId, {0, 2}, 10)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(executor->open(kId, {2, 4}, 10)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(executor->open(kId, {2, 2}, 10)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(executor->open(kId, {1, 3}, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(executor->open(kId, {1, 3}, -5)), Code::kInvalidArgument);
  const auto longer = executor->open(kId, {1, 3}, model_.n_ctx + 1);
  ASSERT_EQ(code_of(longer), Code::kInvalidArgument);
  EXPECT_NE(longer.error().message.find("513"), std::string::npos);  // both numbers
  EXPECT_NE(longer.error().message.find("512"), std::string::npos);
  ASSERT_TRUE(executor->open(kId, {1, 3}, 10));
  EXPECT_EQ(code_of(executor->open(kId, {1, 3}, 10)), Code::kInvalidArgument);
  EXPECT_EQ(executor->position(kId), 0);
  EXPECT_EQ(executor->position(session_id(2)), -1);
}

TEST_F(Executor, RefusesBadSteps) {
  auto executor = make();
  EXPECT_EQ(code_of(executor->forward(kId, 0, input(0, 1), nullptr)), Code::kNotFound);
  ASSERT_TRUE(executor->open(kId, {0, 4}, 40));
  ASSERT_TRUE(executor->forward(kId, 0, input(0, 10), nullptr));
  const auto step = [&](int64_t first, std::span<const float> values) {
    return code_of(executor->forward(kId, first, values, nullptr));
  };
  EXPECT_EQ(step(11, input(11, 12)), Code::kInvalidArgument);  // beyond what exists
  EXPECT_EQ(step(-1, input(0, 1)), Code::kInvalidArgument);
  EXPECT_EQ(step(10, input(10, 41)), Code::kInvalidArgument);  // more than was reserved
  EXPECT_EQ(step(10, {}), Code::kInvalidArgument);
  EXPECT_EQ(step(10, std::span(hidden_).first(63)), Code::kInvalidArgument);
  for (float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(hidden_.begin(), hidden_.begin() + 64);
    values[63] = bad;
    EXPECT_EQ(step(10, values), Code::kInvalidArgument);
  }
  EXPECT_EQ(executor->position(kId), 10);  // refused: nothing moved
  EXPECT_TRUE(executor->forward(kId, 10, input(10, 40), nullptr));
}

TEST(Overflow, IsAnErrorOfItsSessionOnly) {
  TestModel m;
  m.outlier = 1e38f;
  const auto file = model::testing::make_file(m);
  auto input = random_hidden(m.n_embd, 100, 5);
  for (size_t i = 0; i < input.size(); i += static_cast<size_t>(m.n_embd)) input[i] = 0;
  const auto part = [&](int64_t first, int64_t last) {
    return positions(input, m.n_embd, first, last);
  };
  const SessionId other = session_id(2);
  for (DType cache : {DType::kF16, DType::kF32, DType::kQ8_0}) {
    const SpanOptions options{{0, 4}, cache, 1, 1024, 32};
    auto whole = make_executor(file, options), executor = make_executor(file, options);
    ASSERT_TRUE(whole->open(kId, {0, 4}, 100));
    const auto expected = feed(*whole, kId, 0, input, {100});
    ASSERT_TRUE(executor->open(kId, {0, 4}, 100));
    ASSERT_TRUE(executor->open(other, {0, 4}, 100));
    auto out = feed(*executor, kId, 0, part(0, 50), {50});
    ASSERT_TRUE(executor->forward(other, 0, part(0, 50), nullptr));
    std::vector<float> bad(part(30, 70).begin(), part(30, 70).end());
    bad[static_cast<size_t>(35 * m.n_embd)] = 1e3f;  // in the second chunk
    EXPECT_EQ(code_of(executor->forward(other, 30, bad, nullptr)), Code::kInvalidArgument);
    EXPECT_EQ(executor->position(other), 30);
    const auto rest = feed(*executor, kId, 50, part(50, 100), {50});
    out.insert(out.end(), rest.begin(), rest.end());
    EXPECT_EQ(differing(out, expected), 0u);
    const auto again = feed(*executor, other, 30, part(30, 100), {70});
    EXPECT_EQ(differing(again, {expected.begin() + 30 * m.n_embd, expected.end()}), 0u);
  }
}

TEST_F(Executor, CancelStopsBeforeTheNextBlock) {
  auto executor = make();
  ASSERT_TRUE(executor->open(kId, {0, 4}, 200));
  ASSERT_TRUE(executor->forward(kId, 0, input(0, 20), nullptr));
  CancelToken cancel;
  ASSERT_TRUE(executor->forward(kId, 20, input(20, 21), &cancel));
  cancel.cancel();
  EXPECT_EQ(code_of(executor->forward(kId, 15, input(15, 200), &cancel)), Code::kCancelled);
  EXPECT_EQ(executor->position(kId), 15);
}

TEST_F(Executor, ReadsOnlyItsOwnBlocks) {
  uint64_t own = 0;
  for (const format::TensorInfo& t : file_->tensors())
    if (t.name.starts_with("blk.1.") || t.name.starts_with("blk.2.")) own += t.bytes;
  auto executor = make_executor(file_, {{1, 3}, DType::kF16, 1, 64, 32});
  EXPECT_EQ(file_->weight_bytes_touched(), own);
}

TEST_F(Executor, CostOfABlock) {
  uint64_t bytes = 0;
  for (const format::TensorInfo& t : file_->tensors())
    if (t.name.starts_with("blk.0.")) bytes += t.bytes;
  const auto cost = block_cost(*file_, DType::kF16);
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->weight_bytes, bytes);
  EXPECT_GE(cost->cache_token_bytes, 2u * 2 * 32 * 2);  // keys and values, 2 heads of 32, f16
  EXPECT_LE(cost->cache_token_bytes, 2u * 2 * 32 * 2 + 64);
}

TEST(Ends, ReadOnlyTheirOwnWeights) {
  for (bool tied : {false, true}) {
    TestModel m;
    m.tied_head = tied;
    const auto file = model::testing::make_file(m);
    uint64_t own = 0;
    for (const format::TensorInfo& t : file->tensors())
      if (!t.name.starts_with("blk.")) own += t.bytes;
    auto ends = ModelEnds::load(file, 1);
    ASSERT_TRUE(ends) << ends.error().text();
    EXPECT_EQ((*ends)->hyperparameters().tied_head, tied);
    EXPECT_EQ(file->weight_bytes_touched(), own);
  }
}

TEST(Ends, RefuseBadInput) {
  auto ends = ModelEnds::load(model::testing::make_file({}), 1);
  ASSERT_TRUE(ends);
  EXPECT_EQ((*ends)->embed(std::vector<int32_t>{0, 99})->size(), 128u);
  EXPECT_EQ(code_of((*ends)->embed(std::vector<int32_t>{100})), Code::kInvalidArgument);
  EXPECT_EQ(code_of((*ends)->embed(std::vector<int32_t>{-1})), Code::kInvalidArgument);
  EXPECT_EQ(code_of((*ends)->logits(std::vector<float>(63))), Code::kInvalidArgument);
  EXPECT_EQ(code_of((*ends)->logits(std::span<const float>{})), Code::kInvalidArgument);
  std::vector<float> bad(64);
  bad[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(code_of((*ends)->logits(bad)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(ModelEnds::load(model::testing::make_file({}), 0)), Code::kInvalidArgument);
}

}  // namespace
}  // namespace meadow::engine
