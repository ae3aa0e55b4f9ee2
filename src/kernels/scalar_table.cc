#include "kernels/float_environment.h"
#include "kernels/reference.h"
#include "kernels/table.h"

namespace meadow::kernels {
namespace {

void matmul_over_pool(const Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool,
                      Scratch&) {
  run_ieee(pool, w.m, 64, [&](int64_t begin, int64_t end, int) {
    reference::matmul_rows(w, x, n, y, begin, end);
  });
}

void transposed_over_pool(const Matrix& w, const float* y, int64_t n, float* x, ThreadPool& pool,
                          Scratch&) {
  const int64_t unit = info(w.type).block_values;
  run_ieee(pool, w.k / unit, (64 + unit - 1) / unit, [&](int64_t begin, int64_t end, int) {
    reference::transposed_columns(w, y, n, x, begin * unit, end * unit);
  });
}

void attention_over_pool(const PageShape& shape, std::span<const uint8_t* const> pages,
                         int64_t first_position, int64_t n, const float* q, int64_t n_head,
                         float scale, float* out, ThreadPool& pool, Scratch&) {
  const int64_t heads_per_kv = n_head / shape.n_head_kv;
  run_ieee(pool, n * n_head, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++)
      reference::attend(shape, pages, first_position + i / n_head, q + i * shape.head_dim,
                        i % n_head / heads_per_kv, scale, out + i * shape.head_dim);
  });
}

}  // namespace

const Table& scalar_table() {
  static constexpr Table kTable = {
      .matmul = matmul_over_pool,
      .matmul_transposed = transposed_over_pool,
      .sum_experts = reference::sum_experts,
      .dequantise_row = reference::dequantise_row,
      .rms_norm = reference::rms_norm,
      .silu_mul = reference::silu_mul,
      .add = reference::add,
      .add_rows = reference::add_rows,
      .rope = reference::rope,
      .store_head = reference::store_head,
      .attention = attention_over_pool,
  };
  return kTable;
}

}  // namespace meadow::kernels
