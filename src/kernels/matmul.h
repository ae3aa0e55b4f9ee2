// Products of stored weights with activations, the definition of whose order is docs/numerics.md.
// Thread rule: pure functions over their arguments; a ThreadPool and a Scratch serve one call at a
// time. Owns nothing; weights are read where they lie.
#pragma once
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/scratch.h"

namespace meadow::kernels {

// Version of the order of every sum in this folder; results of different versions never mix.
inline constexpr uint32_t kNumericsVersion = 1;

// m rows of k values each, as they lie in the file: row r begins at r · row_bytes(type, k).
// k is a multiple of the type's block_values. Any alignment.
struct Matrix {
  DType type;
  const uint8_t* data;
  int64_t k, m;
};

// y[:, t] = W x[:, t]. Same bits for every n, thread count and target. Blocks until done.
//   x: f32 [k, n], finite      y: f32 [m, n], overwritten; must not overlap x
// n = 0 and m = 0 do nothing.
void matmul(const Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool,
            Scratch& scratch);

// x[:, t] = Wᵀ y[:, t], the weights dequantised exactly: what the backward of matmul() needs. By
// the float rule over the rows of W. Same bits for every n, thread count and target. Blocks until
// done.
//   y: f32 [m, n], finite      x: f32 [k, n], overwritten; must not overlap y
// n = 0 and k = 0 do nothing; m = 0 gives zeros.
void matmul_transposed(const Matrix& w, const float* y, int64_t n, float* x, ThreadPool& pool,
                       Scratch& scratch);

// One of several products of the same activations.
struct Product {
  Matrix w;
  float* y;  // f32 [w.m, n], overwritten
};

// Every y = W x, all matrices with the k of x; the bits of one matmul() for each. What can be
// shared (rounding x, waking the pool) is done once.
void matmul(std::span<const Product> products, const float* x, int64_t n, ThreadPool& pool,
            Scratch& scratch);

// kCorrupt if a scale or minimum of a quantised type, or a value of a float type, is not finite;
// the message names row and column of the first. Reads all of the matrix; blocks until done.
Result<void> check_weights(const Matrix& w, ThreadPool& pool);
Result<void> check_weights(const Matrix& w);  // on this thread

}  // namespace meadow::kernels
