#include "kernels/matmul.h"

#include "base/check.h"
#include "kernels/table.h"

namespace meadow::kernels {

void matmul(const Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool,
            Scratch& scratch) {
  MEADOW_CHECK(w.k >= 0 && w.m >= 0 && n >= 0 && w.k % info(w.type).block_values == 0);
  if (w.m == 0 || n == 0) return;
  active_table().matmul(w, x, n, y, pool, scratch);
}

void matmul_transposed(const Matrix& w, const float* y, int64_t n, float* x, ThreadPool& pool,
                       Scratch& scratch) {
  MEADOW_CHECK(w.k >= 0 && w.m >= 0 && n >= 0 && w.k % info(w.type).block_values == 0);
  if (w.k == 0 || n == 0) return;
  active_table().matmul_transposed(w, y, n, x, pool, scratch);
}

void matmul(std::span<const Product> products, const float* x, int64_t n, ThreadPool& pool,
            Scratch& scratch) {
  for (const Product& p : products) matmul(p.w, x, n, p.y, pool, scratch);
}

}  // namespace meadow::kernels
