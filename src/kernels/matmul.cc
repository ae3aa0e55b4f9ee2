#include "kernels/matmul.h"

#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/dequantise.h"
#include "kernels/table.h"
#include "kernels/weight_block.h"

namespace meadow::kernels {
namespace {

// First value of the row that is not finite or belongs to such a scale; -1 if there is none.
int64_t first_bad_value(const Matrix& w, const uint8_t* row, std::vector<float>& values) {
  const DTypeInfo& t = info(w.type);
  if (t.block_values > 1) {
    for (int64_t b = 0; b < w.k / t.block_values; b++)
      if (!finite_scales(w.type, row + b * t.block_bytes)) return b * t.block_values;
    return -1;
  }
  values.resize(static_cast<size_t>(w.k));
  dequantise_row(w.type, row, w.k, values.data());
  for (int64_t i = 0; i < w.k; i++)
    if (!std::isfinite(values[static_cast<size_t>(i)])) return i;
  return -1;
}

}  // namespace

void matmul(const Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool,
            Scratch& scratch) {
  MEADOW_CHECK(w.k >= 0 && w.m >= 0 && n >= 0 && w.k % info(w.type).block_values == 0);
  if (w.m == 0 || n == 0) return;
  active_table().matmul(w, x, n, y, pool, scratch);
}

void matmul(std::span<const Product> products, const float* x, int64_t n, ThreadPool& pool,
            Scratch& scratch) {
  for (const Product& p : products) matmul(p.w, x, n, p.y, pool, scratch);
}

Result<void> check_weights(const Matrix& w) {
  std::vector<float> values;
  for (int64_t r = 0; r < w.m; r++) {
    const int64_t bad = first_bad_value(w, w.data + r * row_bytes(w.type, w.k), values);
    if (bad >= 0)
      return fail(
          Code::kCorrupt,
          "{} weights: row {}, column {}: expected finite numbers, got infinity or NaN; the "
          "file is damaged or was converted from a damaged one",
          info(w.type).name, r, bad);
  }
  return {};
}

}  // namespace meadow::kernels
