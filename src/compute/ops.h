// The operations port: everything that a block computes, in the order in which it is issued, on
// tensor handles. Results are needed only at read(), so a backend may queue operations, fuse them
// or run them on another device. The columns of a tensor may belong to several sessions (Part):
// what one of them holds never changes a bit of another. Failures that depend on values (a key too
// large for an f16 cache) are its part's alone and are kept for check(). Shapes are the caller's
// duty: a wrong one is a broken invariant, never bad input. Thread rule: one caller at a time.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "compute/tensor.h"

namespace meadow::compute {

// How the pairs that a rotation turns lie in a head.
enum class RopeStyle : uint8_t {
  kNeighbours,  // (0, 1), (2, 3), …: files of architecture llama
  kHalves,      // (0, n_rot/2), (1, n_rot/2 + 1), …: qwen
};

struct Rope {
  int64_t head_dim = 0;
  int64_t n_rot = 0;  // leading values of each head that are turned; even, <= head_dim
  RopeStyle style = RopeStyle::kNeighbours;
  Weight inverse_frequency;  // f32 [n_rot / 2]
};

// Consecutive columns that belong to one session, and its cache in one block: page i holds
// positions [64 i, 64 i + 64).
struct Part {
  int64_t columns = 0;
  int64_t first_position = 0;  // of the first of them
  std::span<const Page> pages;
};

class Ops {
 public:
  virtual ~Ops() = default;

  // --- weights: once, while loading ---
  // A matrix in the file's layout, m rows of k values. `bytes` must outlive the Ops: a backend on
  // the host computes from them in place. Checks size and that every scale is finite (kCorrupt);
  // `name` is for the message. Blocks: reads all of it.
  virtual Result<Weight> matrix(std::string_view name, DType type, ByteView bytes, int64_t k,
                                int64_t m) = 0;
  // A vector of finite values, copied.
  virtual Result<Weight> vector(std::string_view name, std::span<const float> values) = 0;

  // --- cache pages ---
  // A zeroed page; kResourceExhausted if memory is not to be had.
  virtual Result<Page> new_page(const CacheShape& shape) = 0;
  virtual void free_page(Page page) = 0;
  virtual uint64_t page_bytes(const CacheShape& shape) const = 0;

  // --- activations ---
  // Room for f32 [d, n], values undefined.
  virtual Tensor make(int64_t d, int64_t n) = 0;
  // Ends the life of all tensors and forgets kept failures. Their memory is kept for the next ones.
  virtual void reset() = 0;
  // Columns from `first_column` on.    values: f32 [d, any]
  virtual void write(Tensor to, int64_t first_column, std::span<const float> values) = 0;
  // Waits for all that was issued. `out` then has the columns from `first_column` on; undefined
  // values in those of a part that failed.    out: f32 [d, any]
  virtual Result<void> read(Tensor from, int64_t first_column, std::span<float> out) = 0;
  // Waits likewise. The first failure of part `index` since reset().
  virtual Result<void> check(size_t index) = 0;

  // --- operations ---
  // out[:, i] = table[:, ids[i]], dequantised exactly.
  virtual void get_rows(Weight table, std::span<const int32_t> ids, Tensor out) = 0;
  // y = W x: x [k, n], y [m, n].
  virtual void matmul(Weight w, Tensor x, Tensor y) = 0;
  // The same for several matrices at once: out[i] = weights[i] x.
  virtual void matmul_group(std::span<const Weight> weights, Tensor x,
                            std::span<const Tensor> out) = 0;
  // x[:, t] += bias.
  virtual void add_bias(Tensor x, Weight bias) = 0;
  // out = a + b, element by element; out may be a.
  virtual void add(Tensor a, Tensor b, Tensor out) = 0;
  // Every group of weight.k consecutive values of x is divided by its root mean square and
  // multiplied by weight. y may be x.
  virtual void rms_norm(Tensor x, Weight weight, float epsilon, Tensor y) = 0;
  // out = silu(gate) * up; out may be gate.
  virtual void silu_mul(Tensor gate, Tensor up, Tensor out) = 0;

  // --- operations on the columns of several sessions ---
  // The columns are those of the parts, one part after the other; the parts are the same ones from
  // reset() to reset(), with pages of another block.
  // Turns every head of x [head_dim * heads, n] by its column's position.
  virtual void rope(Tensor x, const Rope& rope, std::span<const Part> parts) = 0;
  // Rounds keys and values [head_dim * n_head_kv, n] into the caches.
  virtual void store(const CacheShape& shape, std::span<const Part> parts, Tensor k, Tensor v) = 0;
  // Causal attention of q [head_dim * n_head, n] over the cached positions; out has q's shape.
  virtual void attention(const CacheShape& shape, std::span<const Part> parts, Tensor q,
                         int64_t n_head, float scale, Tensor out) = 0;
};

}  // namespace meadow::compute
