// The architectures this version can run. One file each; an architecture is three functions over
// the operations port, made of the shared pieces in transformer.h. docs/adding-an-architecture.md.
// Thread rule: constant tables and pure functions.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "compute/ops.h"
#include "model/hyperparameters.h"
#include "model/keys.h"
#include "model/loader.h"
#include "model/weights.h"

namespace meadow::model {

// What a block needs besides its weights: the residual stream it changes, whose columns those are,
// and their caches.
struct BlockCall {
  compute::Tensor hidden;                // f32 [n_embd, n], in and out
  std::span<const compute::Part> parts;  // n columns in all; pages for all their positions
  compute::CacheShape cache;
  compute::Weight inverse_frequency;  // f32 [n_rot / 2]
};

// Intermediate values of a block, made once per call of a span and used by every block of it.
struct Workspace {
  compute::Tensor normed;       // f32 [n_embd, n]
  compute::Tensor q, attended;  // f32 [head_dim * n_head, n]
  compute::Tensor k, v;         // f32 [head_dim * n_head_kv, n]
  compute::Tensor gate, up;     // f32 [n_ff, n]
  compute::Tensor branch;       // f32 [n_embd, n]: what is added to the stream

  Workspace(compute::Ops& ops, const Hyperparameters& h, int64_t n);
};

struct Architecture {
  std::string_view name;  // as in general.architecture
  // Fills everything but architecture, n_vocab and tied_head.
  Result<void> (*hyperparameters)(const Keys& keys, Hyperparameters& h);
  // The loader's prefix names the block.
  Result<BlockWeights> (*tensors)(Loader& loader, const Hyperparameters& h);
  void (*forward)(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
                  const BlockCall& call, Workspace& work);
};

// One per file; listed in architecture.cc.
extern const Architecture kLlama, kQwen2, kQwen3;

// kUnsupported with the list of supported ones.
Result<const Architecture*> find_architecture(std::string_view name);
// "llama, qwen2, qwen3".
std::string supported_architectures();

}  // namespace meadow::model
