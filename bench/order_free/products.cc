// Products: see order_free.h. foreach_target includes this file once per target.
#include "order_free/order_free.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "order_free/products.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/simd_setup.h"
#include "kernels/target.h"
// clang-format on

#if MEADOW_HAVE_SIMD
#include "order_free/float_products-inl.h"
#include "order_free/quantised_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::bench::order_free::HWY_NAMESPACE {

Product product(DType type, int64_t n) {
  const bool few = n <= 4;
  switch (type) {
    case DType::kF32:
      return few ? float_rows<F32> : float_panels<F32>;
    case DType::kF16:
      return few ? float_rows<F16> : float_panels<F16>;
    case DType::kBF16:
      return few ? float_rows<BF16> : float_panels<BF16>;
    case DType::kQ4_0:
      return few ? quantised_rows<Nibbles<DType::kQ4_0>> : nullptr;
    case DType::kQ4_1:
      return few ? quantised_rows<Nibbles<DType::kQ4_1>> : nullptr;
    case DType::kQ8_0:
      return few ? quantised_rows<SignedBytes> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace meadow::bench::order_free::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEADOW_HAVE_SIMD

#if HWY_ONCE
namespace meadow::bench::order_free {

Product product(DType type, int64_t n) {
  switch (kernels::active_target()) {
#if HWY_TARGETS & HWY_AVX2
    case kernels::Target::kAvx2:
      return N_AVX2::product(type, n);
#endif
#if HWY_TARGETS & HWY_AVX3
    case kernels::Target::kAvx512:
      return N_AVX3::product(type, n);
#endif
#if HWY_TARGETS & HWY_AVX3_DL
    case kernels::Target::kAvx512Vnni:
      return N_AVX3_DL::product(type, n);
#endif
    default:
      return nullptr;
  }
}

}  // namespace meadow::bench::order_free
#endif  // HWY_ONCE
