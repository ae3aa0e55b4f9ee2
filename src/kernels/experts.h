// Products with mixtures of experts: every token meets the few matrices that its router chose.
// Thread rule: pure functions over their arguments; a ThreadPool and a Scratch serve one call at a
// time. Owns nothing; weights are read where they lie. Blocks until done.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/matmul.h"

namespace meadow::kernels {

// Matrices of one shape, one after another as they lie in the file: expert e begins at
// e · m · row_bytes(type, k).
struct Experts {
  DType type;
  const uint8_t* data;
  int64_t k, m, n_expert;
};

// y[:, s, t] = W[ids[s, t]] x[:, s, t]; the bits of one matmul() with that expert and that column.
//   ids: int32 [n_used, n], each in [0, n_expert): the caller checks what comes from outside
//   x:   f32 [k, n] for each token, or [k, n_used, n] for each token and place (x_per_token 1 or
//        n_used)
//   y:   f32 [m, n_used, n], overwritten; must not overlap x
void matmul_experts(const Experts& w, std::span<const int32_t> ids, int64_t n_used, const float* x,
                    int64_t x_per_token, float* y, ThreadPool& pool, Scratch& scratch);

// out[:, t] = Σ weights[s, t] · y[:, s, t] by fma from +0, s ascending.
//   y: f32 [m, n_used, n]      weights: f32 [n_used, n]      out: f32 [m, n]
void sum_experts(const float* y, const float* weights, int64_t m, int64_t n_used, int64_t n,
                 float* out);

}  // namespace meadow::kernels
