// Transposed products, dequantisation and sums of experts for every vector target. foreach_target
// includes this file once per target.
#include "kernels/matmul.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/transposed_simd.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/simd_setup.h"
// clang-format on

#if MEADOW_HAVE_SIMD
#include "kernels/experts-inl.h"
#include "kernels/transposed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

void matmul_transposed(const Matrix& w, const float* y, int64_t n, float* x, ThreadPool& pool,
                       Scratch& scratch) {
  TransposedProduct(w, y, n, x, pool, scratch).run();
}

void fill_transposed(Table& table) {
  table.matmul_transposed = matmul_transposed;
  table.dequantise_row = dequantise_row;
  table.sum_experts = sum_experts;
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEADOW_HAVE_SIMD

#if HWY_ONCE
namespace meadow::kernels {

void fill_transposed(Target target, Table& table) {
  switch (target) {
#if HWY_TARGETS & HWY_NEON
    case Target::kNeon:
      N_NEON::fill_transposed(table);
      break;
#endif
#if HWY_TARGETS & HWY_AVX2
    case Target::kAvx2:
      N_AVX2::fill_transposed(table);
      break;
#endif
#if HWY_TARGETS & HWY_AVX3
    case Target::kAvx512:
      N_AVX3::fill_transposed(table);
      break;
#endif
#if HWY_TARGETS & HWY_AVX3_DL
    case Target::kAvx512Vnni:
      N_AVX3_DL::fill_transposed(table);
      break;
#endif
    default:
      break;
  }
}

}  // namespace meadow::kernels
#endif  // HWY_ONCE
