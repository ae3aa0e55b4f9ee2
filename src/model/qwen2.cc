// Architecture "qwen2": Qwen 1.5, 2 and 2.5. Biases on q, k and v; rotates halves.
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
  MEADOW_TRY_VOID(load_qkv_biases(loader, h, Biases::kRequired, w));
  return w;
}

void forward(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
             const BlockCall& call, Workspace& work) {
  project_qkv(ops, h, w, call, work);
  attend(ops, h, w, call, work);
  gated_feed_forward(ops, h, w, call, work);
}

}  // namespace

const Architecture kQwen2 = {"qwen2", read_hyperparameters, load_tensors, forward};

}  // namespace meadow::model
