#include "model/architecture.h"

namespace meadow::model {
namespace {

constexpr const Architecture* kAll[] = {&kLlama, &kQwen2, &kQwen3};

}  // namespace

Workspace::Workspace(compute::Ops& ops, const Hyperparameters& h, int64_t n)
    : normed(ops.make(h.n_embd, n)),
      q(ops.make(h.head_dim * h.n_head, n)),
      attended(ops.make(h.head_dim * h.n_head, n)),
      k(ops.make(h.head_dim * h.n_head_kv, n)),
      v(ops.make(h.head_dim * h.n_head_kv, n)),
      gate(ops.make(h.n_ff, n)),
      up(ops.make(h.n_ff, n)),
      branch(ops.make(h.n_embd, n)) {}

std::string supported_architectures() {
  std::string out;
  for (const Architecture* a : kAll) out += (out.empty() ? "" : ", ") + std::string(a->name);
  return out;
}

Result<const Architecture*> find_architecture(std::string_view name) {
  for (const Architecture* a : kAll)
    if (a->name == name) return a;
  return fail(Code::kUnsupported, "architecture {} is not supported; supported: {}", name,
              supported_architectures());
}

}  // namespace meadow::model
