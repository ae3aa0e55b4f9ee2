// The functions of math.h in vectors: the same operations lane by lane. Per-target header.
#if defined(MEADOW_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_MATH_INL_H_
#undef MEADOW_KERNELS_MATH_INL_H_
#else
#define MEADOW_KERNELS_MATH_INL_H_
#endif

#include <limits>

#include "kernels/math.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using D32 = hn::ScalableTag<int32_t>;
using VF = hn::Vec<DF>;
using V32 = hn::Vec<D32>;
constexpr DF df;
constexpr D32 d32;
constexpr int kLanes = HWY_MAX_BYTES / 4;

HWY_INLINE VF power_of_two(V32 exponent) {
  return hn::BitCast(df, hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(d32, 127))));
}

HWY_INLINE VF exp_lanes(VF x) {
  using C = ExpConstants;
  const VF lowest = hn::Set(df, C::kLowest), highest = hn::Set(df, C::kHighest);
  const VF inside = hn::Min(hn::Max(x, lowest), highest);
  const VF n = hn::Round(hn::Mul(inside, hn::Set(df, C::kLog2E)));
  VF r = hn::MulAdd(n, hn::Set(df, -C::kLn2High), inside);
  r = hn::MulAdd(n, hn::Set(df, -C::kLn2Low), r);
  VF p = hn::Set(df, C::kP[0]);
  for (int i = 1; i < 6; i++) p = hn::MulAdd(p, r, hn::Set(df, C::kP[i]));
  const VF e = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(df, 1.0f));
  const V32 power = hn::ConvertTo(d32, n), half = hn::ShiftRight<1>(power);
  VF out = hn::Mul(hn::Mul(e, power_of_two(half)), power_of_two(hn::Sub(power, half)));
  out = hn::IfThenElse(hn::Lt(x, lowest), hn::Zero(df), out);
  const VF infinity = hn::Set(df, std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Gt(x, highest), infinity, out);
}

// The same for x <= 0 or NaN, which stays NaN: less to do, as neither overflow nor a power of two
// that is no float can occur. x · log2 e is rounded to an integer by adding 1.5 · 2^23, whose last
// bits then hold that integer.
HWY_INLINE VF exp_of_negative(VF x) {
  using C = ExpConstants;
  const VF magic = hn::Set(df, 0x1.8p+23f);
  const VF shifted = hn::Add(hn::Mul(x, hn::Set(df, C::kLog2E)), magic);
  const VF n = hn::Sub(shifted, magic);
  VF r = hn::MulAdd(n, hn::Set(df, -C::kLn2High), x);
  r = hn::MulAdd(n, hn::Set(df, -C::kLn2Low), r);
  VF p = hn::Set(df, C::kP[0]);
  for (int i = 1; i < 6; i++) p = hn::MulAdd(p, r, hn::Set(df, C::kP[i]));
  const VF e = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(df, 1.0f));
  const V32 power = hn::ShiftLeft<23>(hn::BitCast(d32, shifted));
  const VF out = hn::Mul(e, hn::BitCast(df, hn::Add(power, hn::Set(d32, 127 << 23))));
  return hn::IfThenElse(hn::Lt(x, hn::Set(df, C::kLowest)), hn::Zero(df), out);
}

HWY_INLINE VF silu_lanes(VF x) {
  return hn::Div(x, hn::Add(hn::Set(df, 1.0f), exp_lanes(hn::Neg(x))));
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
