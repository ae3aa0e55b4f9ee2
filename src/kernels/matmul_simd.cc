// Matrix products for every vector target. foreach_target includes this file once per target.
#include <type_traits>

#include "base/check.h"
#include "kernels/matmul.h"
#include "kernels/simd.h"
#include "kernels/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_simd.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/simd_setup.h"
// clang-format on

#if MEADOW_HAVE_SIMD
#include "kernels/float_matmul-inl.h"
#include "kernels/quantised-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

void matmul(const Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool,
            Scratch& scratch) {
  switch (w.type) {
    case DType::kF32:
      return float_product<DecodeF32>(w, x, n, y, pool, scratch);
    case DType::kF16:
      return float_product<DecodeF16>(w, x, n, y, pool, scratch);
    case DType::kBF16:
      return float_product<DecodeBF16>(w, x, n, y, pool, scratch);
    case DType::kQ8_0:
      return QuantisedProduct<Q8_0>(w, x, n, y, pool, scratch).run();
    case DType::kQ4_0:
      return QuantisedProduct<Q4_0>(w, x, n, y, pool, scratch).run();
    case DType::kQ4_1:
      return QuantisedProduct<Q4_1>(w, x, n, y, pool, scratch).run();
    case DType::kQ5_0:
      return QuantisedProduct<Q5_0>(w, x, n, y, pool, scratch).run();
    case DType::kQ5_1:
      return QuantisedProduct<Q5_1>(w, x, n, y, pool, scratch).run();
    case DType::kQ2_K:
      return QuantisedProduct<Q2_K>(w, x, n, y, pool, scratch).run();
    case DType::kQ3_K:
      return QuantisedProduct<Q3_K>(w, x, n, y, pool, scratch).run();
    case DType::kQ4_K:
      return QuantisedProduct<Q4_K>(w, x, n, y, pool, scratch).run();
    case DType::kQ5_K:
      return QuantisedProduct<Q5_K>(w, x, n, y, pool, scratch).run();
    case DType::kQ6_K:
      return QuantisedProduct<Q6_K>(w, x, n, y, pool, scratch).run();
    case DType::kIQ4_NL:
      return QuantisedProduct<IQ4_NL>(w, x, n, y, pool, scratch).run();
    case DType::kMXFP4:
      return QuantisedProduct<MXFP4>(w, x, n, y, pool, scratch).run();
  }
  MEADOW_CHECK(false);
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEADOW_HAVE_SIMD

#if HWY_ONCE
namespace meadow::kernels {

void fill_matmul(Target target, Table& table) {
  switch (target) {
#if HWY_TARGETS & HWY_NEON
    case Target::kNeon:
      table.matmul = N_NEON::matmul;
      break;
#endif
#if HWY_TARGETS & HWY_AVX2
    case Target::kAvx2:
      table.matmul = N_AVX2::matmul;
      break;
#endif
#if HWY_TARGETS & HWY_AVX3
    case Target::kAvx512:
      table.matmul = N_AVX3::matmul;
      break;
#endif
#if HWY_TARGETS & HWY_AVX3_DL
    case Target::kAvx512Vnni:
      table.matmul = N_AVX3_DL::matmul;
      break;
#endif
    default:
      break;
  }
}

}  // namespace meadow::kernels
#endif  // HWY_ONCE
