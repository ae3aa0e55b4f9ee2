// What kernels could do if sums might be taken in any order: the yardstick for the price of ours
// (docs/numerics.md). Plain good kernels of the usual designs, for every vector target, used by no
// program but bench_kernels. Their results are right, and differ in the last bits.
//
// What has no form here has none that gains: a product of many tokens with quantised weights needs
// one accumulator per output in any case, because each block of 32 has scales of its own and its
// integer sum must be scaled before the next; our order is that accumulator.
// Thread rule: pure functions over their arguments; a pool serves one call at a time. Owns nothing.
#pragma once
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/matmul.h"

namespace meadow::bench::order_free {

// y = W x as kernels::matmul().    x: f32 [k, n]    y: f32 [m, n]
using Product = void (*)(const kernels::Matrix& w, const float* x, int64_t n, float* y,
                         ThreadPool& pool);
// For k a multiple of 256 and m of 64; nullptr where there is no form (type, n, target).
//   at most 4 tokens: lanes along the columns of one row, several accumulators
//   float types, more: a panel of rows in lanes, one chain per output
Product product(DType type, int64_t n);

// A cache of one block of a model, laid out as suits these kernels; f16.
//   keys: [256, head_dim, n_head_kv, blocks] (positions fastest), values: [head_dim, positions,
//   n_head_kv]; positions is a multiple of 256, head_dim of 32
struct Cache {
  const uint16_t *keys, *values;
  int64_t positions, head_dim, n_head_kv;
};
// As kernels::attention(): softmax over 256 positions at a time, sums in any order. Does nothing
// unless has_attention(): there is a form for the active target.
//   q, out: f32 [head_dim, n_head, n]; head_dim at most 256
bool has_attention();
void attention(const Cache& cache, int64_t first_position, int64_t n, const float* q,
               int64_t n_head, float scale, float* out, ThreadPool& pool);

// The arguments of attention().
struct Call {
  const Cache& cache;
  int64_t first_position, n, n_head;
  const float* q;
  float scale;
  float* out;
};

}  // namespace meadow::bench::order_free
