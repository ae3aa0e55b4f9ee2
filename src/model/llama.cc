// Architecture "llama": Llama 1, 2 and 3, Mistral, SmolLM. Rotates neighbours; Llama 3's scaling of
// the frequencies is in the file's rope_freqs.weight, Llama 2's long variants scale linearly.
#include "model/transformer.h"

namespace meadow::model {
namespace {

Result<void> read_hyperparameters(const Keys& keys, Hyperparameters& h) {
  MEADOW_TRY_VOID(read_common(keys, h));
  h.rope_style = compute::RopeStyle::kNeighbours;
  return {};
}

Result<BlockWeights> load_tensors(Loader& loader, const Hyperparameters& h) {
  MEADOW_TRY(BlockWeights w, load_common(loader, h));
  MEADOW_TRY_VOID(load_qkv_biases(loader, h, Biases::kOptional, w));
  MEADOW_TRY(w.attn_output_bias, loader.optional_vector("attn_output.bias", h.n_embd));
  return w;
}

void forward(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
             const BlockCall& call, Workspace& work) {
  project_qkv(ops, h, w, call, work);
  attend(ops, h, w, call, work);
  gated_feed_forward(ops, h, w, call, work);
}

}  // namespace

const Architecture kLlama = {"llama", read_hyperparameters, load_tensors, forward};

}  // namespace meadow::model
