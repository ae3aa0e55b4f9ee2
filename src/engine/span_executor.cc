#include "engine/span_executor.h"

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "model/rope.h"

namespace meadow::engine {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int64_t kMaxCacheTokens = int64_t{1} << 32;
constexpr int64_t kMaxChunk = 4096;

Result<void> check_options(const SpanOptions& o, const model::Hyperparameters& h) {
  if (o.blocks.empty() || !BlockRange{0, h.n_blocks}.contains(o.blocks))
    return fail(Code::kInvalidArgument, "blocks {}:{} are not in a model of {} blocks",
                o.blocks.first, o.blocks.last, h.n_blocks);
  if (o.cache_type != DType::kF16 && o.cache_type != DType::kF32 && o.cache_type != DType::kQ8_0)
    return fail(Code::kInvalidArgument, "a cache of type {}; expected F16, F32 or Q8_0",
                info(o.cache_type).name);
  if (o.threads < 1 || o.threads > kMaxThreads)
    return fail(Code::kInvalidArgument, "{} threads; expected 1 to {}", o.threads, kMaxThreads);
  if (o.cache_tokens < 1 || o.cache_tokens > kMaxCacheTokens)
    return fail(Code::kInvalidArgument, "a cache of {} tokens; expected 1 to {}", o.cache_tokens,
                kMaxCacheTokens);
  if (o.chunk_tokens < 1 || o.chunk_tokens > kMaxChunk)
    return fail(Code::kInvalidArgument, "chunks of {} tokens; expected 1 to {}", o.chunk_tokens,
                kMaxChunk);
  return {};
}

}  // namespace

SpanExecutor::SpanExecutor(std::shared_ptr<format::ModelFile> file, SpanOptions options,
                           model::Hyperparameters h, const model::Architecture& architecture)
    : file_(std::move(file)),
      options_(options),
      h_(std::move(h)),
      architecture_(architecture),
      ops_(options.crew ? options.crew : std::make_shared<ThreadPool>(options.threads)),
      pool_(ops_, {options.cache_type, h_.head_dim, h_.n_head_kv},
            PagePool::pages_for(options.cache_tokens) * options.blocks.size()) {}

SpanExecutor::~SpanExecutor() = default;

Result<std::unique_ptr<SpanExecutor>> SpanExecutor::load(std::shared_ptr<format::ModelFile> file,
                                                         SpanOptions options) {
  MEADOW_TRY(model::Hyperparameters h, model::hyperparameters(*file));
  MEADOW_TRY_VOID(check_options(options, h));
  MEADOW_TRY(const model::Architecture* architecture, model::find_architecture(h.architecture));
  std::unique_ptr<SpanExecutor> executor(
      new SpanExecutor(std::move(file), options, std::move(h), *architecture));
  if (options.pin) MEADOW_TRY_VOID(executor->ops_.pin_threads());
  MEADOW_TRY_VOID(executor->load_weights());
  return executor;
}

Result<void> SpanExecutor::load_weights() {
  model::Loader loader(*file_, ops_);
  MEADOW_TRY(inverse_frequency_, model::load_inverse_frequencies(loader, ops_, h_));
  for (int32_t block = blocks().first; block < blocks().last; block++) {
    loader.set_prefix(fmt::format("blk.{}.", block));
    auto weights = architecture_.tensors(loader, h_);
    if (!weights) return fail(weights.error().within(file_->name()));
    if (auto all = loader.check_all_used(); !all) return fail(all.error().within(file_->name()));
    weights_.push_back(*weights);
  }
  return {};
}

Result<void> SpanExecutor::open(SessionId id, BlockRange part, int64_t max_tokens) {
  if (part.empty() || !blocks().contains(part))
    return fail(Code::kInvalidArgument, "blocks {}:{} are not in the held {}:{}", part.first,
                part.last, blocks().first, blocks().last);
  if (max_tokens < 1 || max_tokens > h_.n_ctx)
    return fail(Code::kInvalidArgument, "a session of {} tokens; the model's context has {}",
                max_tokens, h_.n_ctx);
  if (sessions_.contains(id))
    return fail(Code::kInvalidArgument, "session {} is open already", hex(id));
  MEADOW_TRY_VOID(pool_.reserve(PagePool::pages_for(max_tokens) * part.size()));
  SpanSession session{part, max_tokens, 0, {}};
  session.pages.resize(static_cast<size_t>(part.size()));
  sessions_.emplace(id, std::move(session));
  return {};
}

void SpanExecutor::close(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  const SpanSession& session = found->second;
  for (const auto& block : session.pages)
    for (compute::Page page : block) pool_.give(page);
  pool_.release(PagePool::pages_for(session.max_tokens) * session.part.size());
  sessions_.erase(found);
}

Result<void> SpanExecutor::check_request(const SpanSession& session, int64_t first_position,
                                         std::span<const float> hidden) const {
  const auto width = static_cast<size_t>(h_.n_embd);
  if (hidden.empty() || hidden.size() % width != 0)
    return fail(Code::kInvalidArgument, "{} hidden values are not whole positions of {}",
                hidden.size(), width);
  if (first_position < 0 || first_position > session.position)
    return fail(Code::kInvalidArgument, "position {} is not in the session's 0 to {}",
                first_position, session.position);
  const auto n = static_cast<int64_t>(hidden.size() / width);
  if (n > session.max_tokens - first_position)
    return fail(Code::kInvalidArgument, "{} positions from {} on exceed the session's {}", n,
                first_position, session.max_tokens);
  if (!kernels::all_finite(hidden.data(), static_cast<int64_t>(hidden.size())))
    return fail(Code::kInvalidArgument, "a hidden value is not finite");
  return {};
}

Result<void> SpanExecutor::grow(SpanSession& session, int64_t positions) {
  const auto pages = static_cast<size_t>(PagePool::pages_for(positions));
  for (auto& block : session.pages)
    while (block.size() < pages) {
      MEADOW_TRY(compute::Page page, pool_.take());
      block.push_back(page);
    }
  return {};
}

Result<SpanExecutor::Running> SpanExecutor::start(const Step& step,
                                                  std::span<const Running> before) {
  const auto found = sessions_.find(step.session);
  if (found == sessions_.end()) return fail(Code::kNotFound, "no session {}", hex(step.session));
  SpanSession& session = found->second;
  for (const Running& other : before)
    if (other.session == &session)
      return fail(Code::kInvalidArgument, "session {} has two steps in one batch",
                  hex(step.session));
  MEADOW_TRY_VOID(check_request(session, step.first_position, step.hidden));
  session.position = step.first_position;
  return Running{&step, &session, nullptr, static_cast<int64_t>(step.hidden.size()) / h_.n_embd};
}

std::vector<Result<std::vector<float>>> SpanExecutor::forward(std::span<const Step> batch) {
  std::vector<Result<std::vector<float>>> results(batch.size());
  std::vector<Running> steps;
  for (size_t i = 0; i < batch.size(); i++) {
    auto running = start(batch[i], steps);
    if (!running) {
      results[i] = fail(running.error());
      continue;
    }
    results[i]->resize(batch[i].hidden.size());
    running->result = &results[i];
    steps.push_back(*running);
  }
  const auto part = [](const Running& r) {
    return std::pair(r.session->part.first, r.session->part.last);
  };
  std::stable_sort(steps.begin(), steps.end(),
                   [&](const Running& a, const Running& b) { return part(a) < part(b); });
  for (size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
    while (end < steps.size() && part(steps[end]) == part(steps[begin])) end++;
    run_part(steps[begin].session->part, std::span(steps).subspan(begin, end - begin));
  }
  for (const Running& r : steps)
    if (r.result->has_value()) r.session->position = r.step->first_position + r.columns;
  return results;
}

void SpanExecutor::run_part(BlockRange part, std::span<Running> steps) {
  for (;;) {
    std::vector<Running*> pass;
    int64_t room = options_.chunk_tokens;
    for (Running& r : steps) {
      if (room == 0) break;
      if (!r.active()) continue;
      r.now = std::min(room, r.columns - r.done);
      if (auto grown = grow(*r.session, r.step->first_position + r.done + r.now); !grown) {
        *r.result = fail(grown.error());
        continue;
      }
      room -= r.now;
      pass.push_back(&r);
    }
    if (pass.empty()) return;
    run_pass(part, pass);
  }
}

void SpanExecutor::run_pass(BlockRange part, std::span<Running*> steps) {
  std::vector<compute::Part> parts;
  int64_t n = 0;
  for (const Running* r : steps) {
    parts.push_back({r->now, r->step->first_position + r->done, {}});
    n += r->now;
  }
  ops_.reset();
  const model::BlockCall call{ops_.make(h_.n_embd, n), parts, pool_.shape(), inverse_frequency_};
  model::Workspace work(ops_, h_, n);
  for (int64_t column = 0; const Running* r : steps) {
    ops_.write(call.hidden, column, r->step->hidden.subspan(offset(r->done), offset(r->now)));
    column += r->now;
  }
  for (int32_t block = part.first; block < part.last; block++) {
    bool wanted = false;
    for (size_t i = 0; i < steps.size(); i++) {
      Running& r = *steps[i];
      if (r.step->cancel != nullptr && r.step->cancel->cancelled() && r.result->has_value())
        *r.result = fail(Code::kCancelled, "cancelled before block {}", block);
      wanted |= r.result->has_value();
      parts[i].pages = r.session->pages[static_cast<size_t>(block - part.first)];
    }
    if (!wanted) return;
    architecture_.forward(ops_, h_, weights_[static_cast<size_t>(block - blocks().first)], call,
                          work);
  }
  for (size_t i = 0, column = 0; i < steps.size(); i++) {
    Running& r = *steps[i];
    if (auto ok = finish_pass(r, i, call.hidden, static_cast<int64_t>(column)); !ok)
      *r.result = fail(ok.error());
    column += static_cast<size_t>(r.now);
    r.done += r.now;
  }
}

Result<void> SpanExecutor::finish_pass(Running& r, size_t index, compute::Tensor hidden,
                                       int64_t column) {
  if (!r.result->has_value()) return {};
  MEADOW_TRY_VOID(ops_.check(index));
  const auto out = std::span(**r.result).subspan(offset(r.done), offset(r.now));
  MEADOW_TRY_VOID(ops_.read(hidden, column, out));
  if (!kernels::all_finite(out.data(), static_cast<int64_t>(out.size())))
    return fail(Code::kInvalidArgument, "blocks {}:{} made a value that is not finite",
                r.session->part.first, r.session->part.last);
  return {};
}

Result<std::vector<float>> SpanExecutor::forward(SessionId id, int64_t first_position,
                                                 std::span<const float> hidden,
                                                 const CancelToken* cancel) {
  const Step step{id, first_position, hidden, cancel};
  return std::move(forward({&step, 1}).front());
}

int64_t SpanExecutor::position(SessionId id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? -1 : found->second.position;
}

CacheStats SpanExecutor::stats() const {
  const int64_t blocks = options_.blocks.size();
  const auto tokens = [&](int64_t pages) { return pages * kernels::kPagePositions / blocks; };
  return {tokens(pool_.max()), tokens(pool_.reserved()), tokens(pool_.taken()),
          static_cast<int64_t>(sessions_.size())};
}

Result<BlockCost> block_cost(const format::ModelFile& file, DType cache_type) {
  MEADOW_TRY(model::Hyperparameters h, model::hyperparameters(file));
  std::vector<uint64_t> bytes(static_cast<size_t>(h.n_blocks));
  for (const format::TensorInfo& tensor : file.tensors())
    if (const auto block = format::block_of(tensor.name); block && *block < h.n_blocks)
      bytes[static_cast<size_t>(*block)] += tensor.bytes;
  const kernels::PageShape shape{cache_type, h.head_dim, h.n_head_kv};
  return BlockCost{*std::max_element(bytes.begin(), bytes.end()),
                   shape.bytes() / kernels::kPagePositions};
}

}  // namespace meadow::engine
