#include "model/hyperparameters.h"

#include "format/metadata.h"
#include "model/architecture.h"

namespace meadow::model {
namespace {

// Rows of the embedding matrix: what there really is, whatever the metadata says.
Result<int64_t> vocabulary(const format::ModelFile& file, int64_t n_embd) {
  const format::TensorInfo* table = file.find("token_embd.weight");
  if (table == nullptr) return fail(Code::kCorrupt, "{}: no tensor token_embd.weight", file.name());
  if (table->shape.size() != 2 || table->shape[0] != n_embd)
    return fail(Code::kCorrupt, "{}: token_embd.weight: expected shape [{}, vocabulary], got [{}]",
                file.name(), n_embd, fmt::join(table->shape, ", "));
  if (table->shape[1] > kMaxVocab)
    return fail(Code::kCorrupt, "{}: a vocabulary of {}; the limit is {}", file.name(),
                table->shape[1], kMaxVocab);
  return table->shape[1];
}

}  // namespace

Result<Hyperparameters> hyperparameters(const format::ModelFile& file) {
  const auto name = file.metadata().string("general.architecture");
  if (!name)
    return fail(Code::kCorrupt, "{}: no architecture is named: {}", file.name(),
                name.error().message);
  const auto architecture = find_architecture(*name);
  if (!architecture) return fail(architecture.error().within(file.name()));
  Hyperparameters h;
  h.architecture = std::string(*name);
  MEADOW_TRY_VOID((*architecture)->hyperparameters(Keys(file.metadata(), h.architecture), h));
  MEADOW_TRY(h.n_vocab, vocabulary(file, h.n_embd));
  h.tied_head = file.find("output.weight") == nullptr;
  return h;
}

}  // namespace meadow::model
