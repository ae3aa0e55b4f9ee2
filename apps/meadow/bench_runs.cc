#include "meadow/bench_runs.h"

#include <algorithm>

namespace meadow::apps {
namespace {

// Session 0 serves prompts and depths, session i sequence i - 1 of a parallel run.
SessionId session_id(int64_t number) {
  SessionId id;
  for (size_t i = 0; i < 8; i++) id.bytes[i] = static_cast<uint8_t>(number >> (8 * i));
  return id;
}

int64_t longest(const BenchPlan& plan) {
  int64_t most = std::max<int64_t>(plan.prompt, 1);
  for (int64_t depth : plan.depths) most = std::max(most, depth + plan.gen);
  return most;
}

}  // namespace

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

std::string BenchTest::name() const {
  if (kind == kPrefill) return fmt::format("prefill {}", steps);
  if (kind == kParallel) return fmt::format("decode {} x {} sequences", steps, sequences);
  return depth ? fmt::format("decode {} at depth {}", steps, depth)
               : fmt::format("decode {}", steps);
}

std::vector<BenchTest> tests_of(const BenchPlan& plan) {
  std::vector<BenchTest> tests;
  if (plan.prompt > 0) tests.push_back({BenchTest::kPrefill, plan.prompt, 0, 1});
  if (plan.gen == 0) return tests;
  for (int64_t depth : plan.depths) tests.push_back({BenchTest::kDecode, plan.gen, depth, 1});
  for (int64_t count : plan.sequences) tests.push_back({BenchTest::kParallel, plan.gen, 0, count});
  return tests;
}

Result<std::unique_ptr<BenchModel>> BenchModel::load(std::shared_ptr<format::ModelFile> file,
                                                     const BenchPlan& plan) {
  MEADOW_TRY(const auto h, model::hyperparameters(*file));
  const int64_t positions = longest(plan);
  if (positions > h.n_ctx || plan.gen > h.n_ctx)
    return fail(Code::kInvalidArgument,
                "--prompt, --gen and --depth need {} positions, the model was made for {}",
                std::max(positions, plan.gen), h.n_ctx);
  int64_t sequences = 0;
  for (int64_t count : plan.sequences) sequences = std::max(sequences, count);
  const auto rounded = [](int64_t n) { return engine::PagePool::pages_for(n) * 64; };

  std::unique_ptr<BenchModel> bench(new BenchModel());
  MEADOW_TRY(bench->ends_, engine::ModelEnds::load(file, plan.threads));
  engine::SpanOptions options;
  options.blocks = {0, h.n_blocks};
  options.cache_type = plan.cache;
  options.threads = plan.threads;
  options.pin = plan.pin;
  options.crew = bench->ends_->crew();
  options.cache_tokens = rounded(positions) + sequences * rounded(std::max<int64_t>(plan.gen, 1));
  MEADOW_TRY(bench->executor_, engine::SpanExecutor::load(file, options));
  MEADOW_TRY_VOID(bench->executor_->open(session_id(0), options.blocks, positions));
  for (int64_t i = 1; i <= sequences; i++)
    MEADOW_TRY_VOID(
        bench->executor_->open(session_id(i), options.blocks, std::max<int64_t>(plan.gen, 1)));

  for (const format::TensorInfo& tensor : file->tensors())
    if (tensor.name != "token_embd.weight" || h.tied_head) bench->weight_bytes_ += tensor.bytes;
  MEADOW_TRY(const auto* table, file->tensor("token_embd.weight"));
  bench->row_bytes_ = table->bytes / static_cast<uint64_t>(h.n_vocab);
  MEADOW_TRY(const auto cost, engine::block_cost(*file, plan.cache));
  bench->cache_token_bytes_ = cost.cache_token_bytes * static_cast<uint64_t>(h.n_blocks);
  return bench;
}

uint64_t BenchModel::bytes_per_step(const BenchTest& test) const {
  const auto mean_position = static_cast<uint64_t>(test.depth + test.steps / 2);
  const auto sequences = static_cast<uint64_t>(test.sequences);
  return weight_bytes_ + sequences * (row_bytes_ + cache_token_bytes_ * mean_position);
}

int32_t BenchModel::random_id() {
  return static_cast<int32_t>(rng_.below(static_cast<uint64_t>(ends_->hyperparameters().n_vocab)));
}

Result<void> BenchModel::advance(int64_t first, int64_t n, const CancelToken* cancel) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) id = random_id();
  MEADOW_TRY(const auto hidden, ends_->embed(ids));
  MEADOW_TRY(const auto out, executor_->forward(session_id(0), first, hidden, cancel));
  const auto width = static_cast<size_t>(ends_->hyperparameters().n_embd);
  MEADOW_TRY_VOID(ends_->logits(std::span(out).last(width)));
  return {};
}

Result<void> BenchModel::step_all(int64_t sequences, int64_t position, const CancelToken* cancel) {
  std::vector<int32_t> ids(static_cast<size_t>(sequences));
  for (int32_t& id : ids) id = random_id();
  MEADOW_TRY(const auto hidden, ends_->embed(ids));
  const auto width = static_cast<size_t>(ends_->hyperparameters().n_embd);
  std::vector<engine::Step> steps;
  for (int64_t i = 0; i < sequences; i++)
    steps.push_back({session_id(i + 1), position,
                     std::span(hidden).subspan(static_cast<size_t>(i) * width, width), cancel});
  const auto outs = executor_->forward(steps);
  std::vector<std::span<const float>> lasts;
  for (const auto& out : outs) {
    if (!out) return fail(out.error());
    lasts.push_back(*out);
  }
  for (const auto& logits : ends_->logits(lasts))
    if (!logits) return fail(logits.error());
  return {};
}

Result<void> BenchModel::warm_up(const BenchPlan& plan) {
  constexpr int64_t kSome = 32;
  if (plan.prompt > 0) MEADOW_TRY_VOID(advance(0, std::min(plan.prompt, kSome), nullptr));
  if (plan.gen > 0)
    for (int i = 0; i < 2; i++) MEADOW_TRY_VOID(advance(0, 1, nullptr));
  for (int64_t count : plan.sequences)
    if (plan.gen > 0) MEADOW_TRY_VOID(step_all(count, 0, nullptr));
  return {};
}

Result<Duration> BenchModel::run(const BenchTest& test, const Clock& clock,
                                 const CancelToken* cancel) {
  const int64_t held = executor_->position(session_id(0));
  if (test.kind == BenchTest::kDecode && held < test.depth)
    MEADOW_TRY_VOID(advance(held, test.depth - held, cancel));
  const TimePoint start = clock.now();
  switch (test.kind) {
    case BenchTest::kPrefill:
      MEADOW_TRY_VOID(advance(0, test.steps, cancel));
      break;
    case BenchTest::kDecode:
      for (int64_t i = 0; i < test.steps; i++) MEADOW_TRY_VOID(advance(test.depth + i, 1, cancel));
      break;
    case BenchTest::kParallel:
      for (int64_t i = 0; i < test.steps; i++) MEADOW_TRY_VOID(step_all(test.sequences, i, cancel));
      break;
  }
  return clock.now() - start;
}

}  // namespace meadow::apps
