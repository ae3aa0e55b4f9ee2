// Architecture "qwen3": a norm on each head of q and k before the rotation, and a head size of its
// own that need not be width / heads; rotates halves.
#include "model/transformer.h"

namespace meadow::model {
namespace {

Result<void> read_hyperparameters(const Keys& keys, Hyperparameters& h) {
  MEADOW_TRY_VOID(read_common(keys, h));
  h.rope_style = compute::RopeStyle::kHalves;
  return {};
}

Result<BlockWeights> load_tensors(Loader& loader, const Hyperparameters& h) {
  MEADOW_TRY(BlockWeights w, load_common(loader, h));
  MEADOW_TRY_VOID(load_qkv_biases(loader, h, Biases::kOptional, w));
  MEADOW_TRY(w.q_norm, loader.vector("attn_q_norm.weight", h.head_dim));
  MEADOW_TRY(w.k_norm, loader.vector("attn_k_norm.weight", h.head_dim));
  return w;
}

void forward(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
             const BlockCall& call, Workspace& work) {
  project_qkv(ops, h, w, call, work);
  normalise_heads(ops, h, w, work);
  attend(ops, h, w, call, work);
  gated_feed_forward(ops, h, w, call, work);
}

}  // namespace

const Architecture kQwen3 = {"qwen3", read_hyperparameters, load_tensors, forward};

}  // namespace meadow::model
