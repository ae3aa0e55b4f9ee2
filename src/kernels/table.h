// One entry per kernel that has a form for each target. Internal to this folder.
// Thread rule: tables are constants; active_table() may be called from any thread.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"

namespace meadow::kernels {

struct PageLayout;

// Meanings as in the public headers.
struct Table {
  void (*matmul)(const Matrix&, const float*, int64_t, float*, ThreadPool&, Scratch&);
  void (*matmul_transposed)(const Matrix&, const float*, int64_t, float*, ThreadPool&, Scratch&);
  void (*sum_experts)(const float*, const float*, int64_t, int64_t, int64_t, float*);
  void (*dequantise_row)(DType, const uint8_t*, int64_t, float*);
  void (*rms_norm)(const float*, const float*, float, int64_t, int64_t, float*);
  void (*silu_mul)(const float*, const float*, int64_t, float*);
  void (*add)(const float*, const float*, int64_t, float*);
  void (*add_rows)(float*, const float*, int64_t, int64_t);
  void (*rope)(float*, int64_t, int64_t, const RopeTable&, RopeStyle);
  // As reference::store_head().
  bool (*store_head)(const PageLayout&, uint8_t*, int64_t, int64_t, int64_t, const float*,
                     const float*, int64_t);
  void (*attention)(const PageShape&, std::span<const uint8_t* const>, int64_t, int64_t,
                    const float*, int64_t, float, float*, ThreadPool&, Scratch&);
};

// The reference, rows and heads spread over the pool.
const Table& scalar_table();
// Also sets IEEE arithmetic on the calling thread (float_environment.h).
const Table& active_table();

}  // namespace meadow::kernels
