// Pieces that architectures share: reading the usual keys and tensors, and the parts of a block.
// Thread rule: pure functions; Ops as there.
#pragma once
#include "model/architecture.h"

namespace meadow::model {

// --- hyperparameters ---
// Block count, widths, heads, context, norm epsilon, rotation with linear scaling. The style of the
// rotation is the architecture's to set. Refuses experts and other kinds of scaling by name.
Result<void> read_common(const Keys& keys, Hyperparameters& h);

// --- tensors ---
// Norms, the four attention matrices and the three of the gated feed-forward part.
Result<BlockWeights> load_common(Loader& loader, const Hyperparameters& h);
enum class Biases { kOptional, kRequired };
Result<void> load_qkv_biases(Loader& loader, const Hyperparameters& h, Biases biases,
                             BlockWeights& w);

// --- forward, in this order ---
// work.q, k, v = projections of the normed stream, plus their biases where present.
void project_qkv(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
                 const BlockCall& call, Workspace& work);
// work.q, k: each head divided by its root mean square.
void normalise_heads(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
                     Workspace& work);
// Rotates q and k, stores k and v, attends, projects, and adds to the stream.
void attend(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
            const BlockCall& call, Workspace& work);
// Adds down(silu(gate x) * up x) of the normed stream to it.
void gated_feed_forward(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
                        const BlockCall& call, Workspace& work);

}  // namespace meadow::model
