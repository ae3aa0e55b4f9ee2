#include "engine/model_ends.h"

#include "kernels/elementwise.h"
#include "model/loader.h"

namespace meadow::engine {
namespace {

constexpr int kMaxThreads = 1024;

}  // namespace

ModelEnds::ModelEnds(std::shared_ptr<format::ModelFile> file, int threads, model::Hyperparameters h)
    : file_(std::move(file)), h_(std::move(h)), ops_(threads) {}

Result<std::unique_ptr<ModelEnds>> ModelEnds::load(std::shared_ptr<format::ModelFile> file,
                                                   int threads) {
  if (threads < 1 || threads > kMaxThreads)
    return fail(Code::kInvalidArgument, "{} threads; expected 1 to {}", threads, kMaxThreads);
  MEADOW_TRY(model::Hyperparameters h, model::hyperparameters(*file));
  std::unique_ptr<ModelEnds> ends(new ModelEnds(std::move(file), threads, std::move(h)));
  if (auto loaded = ends->load_weights(); !loaded)
    return fail(loaded.error().within(ends->file_->name()));
  return ends;
}

Result<void> ModelEnds::load_weights() {
  model::Loader loader(*file_, ops_);
  MEADOW_TRY(embeddings_, loader.matrix("token_embd.weight", h_.n_embd, h_.n_vocab));
  MEADOW_TRY(norm_, loader.vector("output_norm.weight", h_.n_embd));
  head_ = embeddings_;
  if (!h_.tied_head) {
    MEADOW_TRY(head_, loader.matrix("output.weight", h_.n_embd, h_.n_vocab));
  }
  for (const char* prefix : {"token_", "output"}) {
    loader.set_prefix(prefix);
    MEADOW_TRY_VOID(loader.check_all_used());
  }
  return {};
}

Result<std::vector<float>> ModelEnds::embed(std::span<const int32_t> ids) {
  for (int32_t id : ids)
    if (id < 0 || id >= h_.n_vocab)
      return fail(Code::kInvalidArgument, "token {} is not in the vocabulary of {}", id,
                  h_.n_vocab);
  ops_.reset();
  const compute::Tensor rows = ops_.make(h_.n_embd, static_cast<int64_t>(ids.size()));
  ops_.get_rows(embeddings_, ids, rows);
  std::vector<float> out(ids.size() * static_cast<size_t>(h_.n_embd));
  MEADOW_TRY_VOID(ops_.read(rows, 0, out));
  return out;
}

Result<void> ModelEnds::check_hidden(std::span<const float> hidden) const {
  const auto width = static_cast<size_t>(h_.n_embd);
  if (hidden.empty() || hidden.size() % width != 0)
    return fail(Code::kInvalidArgument, "{} hidden values are not whole positions of {}",
                hidden.size(), width);
  if (!kernels::all_finite(hidden.data(), static_cast<int64_t>(hidden.size())))
    return fail(Code::kInvalidArgument, "a hidden value is not finite");
  return {};
}

Result<std::vector<float>> ModelEnds::logits(std::span<const float> hidden) {
  return std::move(logits({&hidden, 1}).front());
}

std::vector<Result<std::vector<float>>> ModelEnds::logits(
    std::span<const std::span<const float>> hidden) {
  std::vector<Result<std::vector<float>>> results(hidden.size());
  int64_t n = 0;
  for (size_t i = 0; i < hidden.size(); i++)
    if (auto ok = check_hidden(hidden[i]); ok)
      n += static_cast<int64_t>(hidden[i].size()) / h_.n_embd;
    else
      results[i] = fail(ok.error());
  if (n == 0) return results;
  ops_.reset();
  const compute::Tensor x = ops_.make(h_.n_embd, n), y = ops_.make(h_.n_vocab, n);
  for (size_t i = 0, column = 0; i < hidden.size(); i++) {
    if (!results[i]) continue;
    ops_.write(x, static_cast<int64_t>(column), hidden[i]);
    column += hidden[i].size() / static_cast<size_t>(h_.n_embd);
  }
  ops_.rms_norm(x, norm_, h_.norm_epsilon, x);
  ops_.matmul(head_, x, y);
  for (size_t i = 0, column = 0; i < hidden.size(); i++) {
    if (!results[i]) continue;
    const size_t columns = hidden[i].size() / static_cast<size_t>(h_.n_embd);
    results[i]->resize(columns * static_cast<size_t>(h_.n_vocab));
    auto read = ops_.read(y, static_cast<int64_t>(column), *results[i]);
    if (read && !kernels::all_finite(results[i]->data(), static_cast<int64_t>(results[i]->size())))
      read = fail(Code::kInvalidArgument, "the head made a logit that is not finite");
    if (!read) results[i] = fail(read.error());
    column += columns;
  }
  return results;
}

}  // namespace meadow::engine
