#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/dequantise.h"
#include "kernels/math.h"
#include "kernels/reference.h"
#include "kernels/weight_block.h"

namespace meadow::kernels::reference {
namespace {

// s and t are exact integers. |s| is at most 516,128 (IQ4_NL: 32 · 127 · 127), 520,192 (Q3_K),
// 16,646,144 (Q6_K: 32 · 128 · 32 · 127) and less for the other types that meet 8-bit activations:
// below 2^24, so its conversion is exact too. Q8_0 reaches 134,213,632; there it rounds once.
// |t| is at most 60,960 (Q2_K: 32 · 15 · 127), exact; its product with a.d rounds.
float add_block(DType type, const WeightBlock& w, const ActivationBlock& a, float acc) {
  int32_t s = 0, t = 0;
  for (int i = 0; i < 32; i++) {
    s += w.scale[i / 16] * w.q[i] * a.q[i];
    t += w.minimum[i / 16] * a.q[i];
  }
  acc = std::fma(static_cast<float>(s), w.d * a.d, acc);
  if (has_minimum(type)) acc = std::fma(w.m, static_cast<float>(t) * a.d, acc);
  return acc;
}

void quantised_rows(const Matrix& w, const float* x, int64_t n, float* y, int64_t first_row,
                    int64_t last_row) {
  const int64_t blocks = w.k / 32;
  const int32_t limit = activation_limit(w.type);
  std::vector<ActivationBlock> activations(static_cast<size_t>(blocks * n));
  for (int64_t i = 0; i < blocks * n; i++)
    activations[static_cast<size_t>(i)] = quantise_activations(x + 32 * i, limit);
  std::vector<WeightBlock> row(static_cast<size_t>(blocks));
  for (int64_t r = first_row; r < last_row; r++) {
    const uint8_t* bytes = w.data + r * row_bytes(w.type, w.k);
    for (int64_t b = 0; b < blocks; b++)
      row[static_cast<size_t>(b)] = weight_block(w.type, bytes, b);
    for (int64_t t = 0; t < n; t++) {
      float acc = 0;
      for (int64_t b = 0; b < blocks; b++)
        acc = add_block(w.type, row[static_cast<size_t>(b)],
                        activations[static_cast<size_t>(t * blocks + b)], acc);
      y[t * w.m + r] = acc;
    }
  }
}

void float_rows(const Matrix& w, const float* x, int64_t n, float* y, int64_t first_row,
                int64_t last_row) {
  std::vector<float> row(static_cast<size_t>(w.k));
  for (int64_t r = first_row; r < last_row; r++) {
    dequantise_row(w.type, w.data + r * row_bytes(w.type, w.k), w.k, row.data());
    for (int64_t t = 0; t < n; t++) y[t * w.m + r] = dot(row.data(), x + t * w.k, w.k);
  }
}

}  // namespace

int32_t activation_limit(DType type) {
  MEADOW_CHECK(info(type).block_values > 1);
  return type == DType::kQ8_0 ? 32767 : 127;
}

ActivationBlock quantise_activations(const float* x, int32_t limit) {
  ActivationBlock a{};
  const auto top = static_cast<float>(limit);
  float largest = 0;
  for (int i = 0; i < 32; i++) largest = std::max(largest, std::fabs(x[i]));
  a.d = largest / top;
  if (a.d < std::numeric_limits<float>::min()) a.d = 0;
  if (a.d == 0) return a;
  for (int i = 0; i < 32; i++) {
    const float q = std::nearbyint(std::clamp(x[i] / a.d, -top, top));
    a.q[i] = static_cast<int16_t>(q);
  }
  return a;
}

float dot(const float* a, const float* b, int64_t k) {
  float chain[8] = {};
  for (int64_t i = 0; i < (k + 7) / 8 * 8; i++)
    chain[i % 8] = std::fma(i < k ? a[i] : 0.0f, i < k ? b[i] : 0.0f, chain[i % 8]);
  return merge_chains(chain);
}

void matmul_rows(const Matrix& w, const float* x, int64_t n, float* y, int64_t first_row,
                 int64_t last_row) {
  const bool quantised = info(w.type).block_values > 1;
  (quantised ? quantised_rows : float_rows)(w, x, n, y, first_row, last_row);
}

void matmul(const Matrix& w, const float* x, int64_t n, float* y) {
  matmul_rows(w, x, n, y, 0, w.m);
}

void transposed_columns(const Matrix& w, const float* y, int64_t n, float* x, int64_t first,
                        int64_t last) {
  const int64_t unit = info(w.type).block_values;
  std::vector<float> block(static_cast<size_t>(unit)), columns(static_cast<size_t>(unit * w.m));
  for (int64_t c = first; c < last; c += unit) {
    for (int64_t r = 0; r < w.m; r++) {
      dequantise_row(w.type, w.data + r * row_bytes(w.type, w.k) + row_bytes(w.type, c), unit,
                     block.data());
      for (int64_t i = 0; i < unit; i++)
        columns[static_cast<size_t>(i * w.m + r)] = block[static_cast<size_t>(i)];
    }
    for (int64_t t = 0; t < n; t++)
      for (int64_t i = 0; i < unit; i++)
        x[t * w.k + c + i] = dot(columns.data() + i * w.m, y + t * w.m, w.m);
  }
}

void matmul_transposed(const Matrix& w, const float* y, int64_t n, float* x) {
  transposed_columns(w, y, n, x, 0, w.k);
}

void matmul_experts(const Experts& w, std::span<const int32_t> ids, int64_t n_used, const float* x,
                    int64_t x_per_token, float* y) {
  const int64_t expert_bytes = w.m * row_bytes(w.type, w.k);
  for (size_t place = 0; place < ids.size(); place++) {
    const auto p = static_cast<int64_t>(place);
    const Matrix expert{w.type, w.data + ids[place] * expert_bytes, w.k, w.m};
    matmul(expert, x + p * x_per_token / n_used * w.k, 1, y + p * w.m);
  }
}

void sum_experts(const float* y, const float* weights, int64_t m, int64_t n_used, int64_t n,
                 float* out) {
  for (int64_t t = 0; t < n; t++)
    for (int64_t i = 0; i < m; i++) {
      float sum = 0;
      for (int64_t s = 0; s < n_used; s++)
        sum = std::fma(weights[t * n_used + s], y[(t * n_used + s) * m + i], sum);
      out[t * m + i] = sum;
    }
}

}  // namespace meadow::kernels::reference
