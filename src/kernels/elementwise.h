// Norms, activations, additions and rotary positions. Order and rounding: docs/numerics.md.
// Thread rule: pure functions; any thread. Owns nothing. Outputs may be the same array as an input
// of the same shape, and may not overlap it otherwise.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace meadow::kernels {

// y = x / sqrt(mean(x²) + eps) · weight, each column by itself.
//   x, y: f32 [d, n]      weight: f32 [d]
void rms_norm(const float* x, const float* weight, float eps, int64_t d, int64_t n, float* y);

// out = silu(gate) · up.    gate, up, out: f32 [count]
void silu_mul(const float* gate, const float* up, int64_t count, float* out);

// out = a + b.    a, b, out: f32 [count]
void add(const float* a, const float* b, int64_t count, float* out);

// x[:, t] += bias.    x: f32 [d, n]    bias: f32 [d]
void add_rows(float* x, const float* bias, int64_t d, int64_t n);

// Which values of a head turn together.
enum class RopeStyle {
  kNeighbours,  // 2i and 2i + 1 (llama)
  kHalves,      // i and i + n_rot/2 (qwen)
};

// Sines and cosines of the positions [first_position, first_position + n), the same for every head
// and block: make one per call of a span.
class RopeTable {
 public:
  // inv_freq: f32 [n_rot/2], finite, in radians per position; |position · inv_freq| at most 2^20.
  RopeTable(int64_t first_position, int64_t n, std::span<const float> inv_freq);
  // The same for any positions, column by column.
  RopeTable(std::span<const int64_t> positions, std::span<const float> inv_freq);

  int64_t positions() const { return n_; }
  int64_t n_rot() const { return 2 * half_; }
  const float* cos(int64_t t) const { return values_.data() + 2 * t * half_; }  // f32 [n_rot/2]
  const float* sin(int64_t t) const { return cos(t) + half_; }                  // f32 [n_rot/2]

 private:
  int64_t n_, half_;
  std::vector<float> values_;
};

// Turns the first n_rot values of every head by its column's position.
//   x: f32 [head_dim, n_head, table.positions()]; table.n_rot() <= head_dim
void rope(float* x, int64_t head_dim, int64_t n_head, const RopeTable& table, RopeStyle style);

// The same with a table of its own.    x: f32 [head_dim, n_head, n]    inv_freq: f32 [n_rot/2]
void rope(float* x, int64_t head_dim, int64_t n_rot, int64_t n_head, int64_t n,
          int64_t first_position, const float* inv_freq, RopeStyle style);

// Whether no value is infinite or NaN.    x: f32 [count]
bool all_finite(const float* x, int64_t count);

}  // namespace meadow::kernels
