#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/half.h"
#include "kernels/dequantise.h"
#include "kernels/math.h"
#include "kernels/reference.h"

namespace meadow::kernels::reference {
namespace {

// value(i) = q[i] · d + m
struct WeightBlock {
  int16_t q[32];
  float d, m;
};

float read_f16(const uint8_t* p) { return half_to_float(static_cast<uint16_t>(p[0] | p[1] << 8)); }

WeightBlock decode(DType type, const uint8_t* block) {
  WeightBlock w{};
  w.d = read_f16(block);
  switch (type) {
    case DType::kQ8_0:
      for (int i = 0; i < 32; i++) w.q[i] = static_cast<int8_t>(block[2 + i]);
      break;
    case DType::kQ4_0:
    case DType::kQ4_1: {
      const bool has_minimum = type == DType::kQ4_1;
      const uint8_t* nibbles = block + (has_minimum ? 4 : 2);
      const int offset = has_minimum ? 0 : 8;
      if (has_minimum) w.m = read_f16(block + 2);
      for (int i = 0; i < 16; i++) {
        w.q[i] = static_cast<int16_t>((nibbles[i] & 15) - offset);
        w.q[i + 16] = static_cast<int16_t>((nibbles[i] >> 4) - offset);
      }
      break;
    }
    default:
      MEADOW_CHECK(false);
  }
  return w;
}

float add_block(DType type, const WeightBlock& w, const ActivationBlock& a, float acc) {
  int32_t s = 0;
  for (int i = 0; i < 32; i++) s += w.q[i] * a.q[i];
  acc = std::fma(static_cast<float>(s), w.d * a.d, acc);
  if (type == DType::kQ4_1) acc = std::fma(w.m, static_cast<float>(a.sum) * a.d, acc);
  return acc;
}

void quantised_rows(const Matrix& w, const float* x, int64_t n, float* y, int64_t first_row,
                    int64_t last_row) {
  const int64_t blocks = w.k / 32, block_bytes = info(w.type).block_bytes;
  const int32_t limit = activation_limit(w.type);
  std::vector<ActivationBlock> activations(static_cast<size_t>(blocks * n));
  for (int64_t i = 0; i < blocks * n; i++)
    activations[static_cast<size_t>(i)] = quantise_activations(x + 32 * i, limit);
  std::vector<WeightBlock> row(static_cast<size_t>(blocks));
  for (int64_t r = first_row; r < last_row; r++) {
    const uint8_t* bytes = w.data + r * row_bytes(w.type, w.k);
    for (int64_t b = 0; b < blocks; b++)
      row[static_cast<size_t>(b)] = decode(w.type, bytes + b * block_bytes);
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
    a.sum += a.q[i];
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

}  // namespace meadow::kernels::reference
