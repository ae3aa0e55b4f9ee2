// Everything but matrix products for every vector target. foreach_target includes this file once
// per target.
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise_simd.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/simd_setup.h"
// clang-format on

#if MEADOW_HAVE_SIMD
#include "kernels/attention-inl.h"
#include "kernels/elementwise-inl.h"
#include "kernels/store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

void fill(Table& table) {
  table.rms_norm = rms_norm;
  table.silu_mul = silu_mul;
  table.add = add;
  table.add_rows = add_rows;
  table.rope = rope;
  table.store_head = store_head;
  table.attention = attention;
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEADOW_HAVE_SIMD

#if HWY_ONCE
namespace meadow::kernels {

void fill_elementwise(Target target, Table& table) {
  switch (target) {
#if HWY_TARGETS & HWY_NEON
    case Target::kNeon:
      N_NEON::fill(table);
      break;
#endif
#if HWY_TARGETS & HWY_AVX2
    case Target::kAvx2:
      N_AVX2::fill(table);
      break;
#endif
#if HWY_TARGETS & HWY_AVX3
    case Target::kAvx512:
      N_AVX3::fill(table);
      break;
#endif
#if HWY_TARGETS & HWY_AVX3_DL
    case Target::kAvx512Vnni:
      N_AVX3_DL::fill(table);
      break;
#endif
    default:
      break;
  }
}

bool target_is_supported(Target target) {
#if HWY_ARCH_ARM
  return target == Target::kNeon && (HWY_TARGETS & HWY_NEON) != 0;  // part of every 64-bit ARM
#else
  const auto has = [](int64_t bit) { return (HWY_TARGETS & hwy::SupportedTargets() & bit) != 0; };
  switch (target) {
    case Target::kAvx2:
      return has(HWY_AVX2);
    case Target::kAvx512:
      return has(HWY_AVX3);
    case Target::kAvx512Vnni:
      return has(HWY_AVX3_DL);
    default:
      return false;
  }
#endif
}

}  // namespace meadow::kernels
#endif  // HWY_ONCE
