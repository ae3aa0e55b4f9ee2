// Exact integer dot products of one block of 32 columns, a row per 32-bit lane. Per-target header.
//
// A dot has kGroups sums, one of each half of the block if 2. start() takes what the activations
// hold for it (activations-inl.h), which folds the weights' offset in; value() gives the block's
// integer as f32, the halves' sums times their scales.
#if defined(MEADOW_KERNELS_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_DOTS_INL_H_
#undef MEADOW_KERNELS_DOTS_INL_H_
#else
#define MEADOW_KERNELS_DOTS_INL_H_
#endif

#include "kernels/decoders_k-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

// Pairs of 16-bit numbers multiplied and added: one sum per dword.
HWY_INLINE V32 multiply_pairs(V16 a, V16 b) {
  V32 odd = hn::Zero(d32);
  const V32 sum = hn::ReorderWidenMulAccumulate(d32, a, b, hn::Zero(d32), odd);
  return hn::RearrangeToOddPlusEven(sum, odd);
}

// Signed 16-bit weights times signed 16-bit activations, two columns per dword.
// |w| <= 128, |x| <= 32767, 32 columns: below 2^28.
struct WideDot {
  // Outside x86 Highway keeps two vectors of sums until the end; on x86 b stays unused.
  V32 a, b;

  HWY_INLINE void start() { a = b = hn::Zero(d32); }
  HWY_INLINE void add(V16 w, V32 x) {
#if HWY_TARGET == HWY_AVX3_DL
    a = V32{_mm512_dpwssd_epi32(a.raw, w.raw, x.raw)};
#else
    a = hn::ReorderWidenMulAccumulate(d32, w, hn::BitCast(d16, x), a, b);
#endif
    MEADOW_PIN(a);
  }
  HWY_INLINE VF value() const { return hn::ConvertTo(df, hn::RearrangeToOddPlusEven(a, b)); }
};

// Unsigned weights of at most 6 bits times signed 8-bit activations, four columns per dword.
#if HWY_TARGET == HWY_AVX3_DL
template <int kGroups>
struct NarrowDot {
  static constexpr bool kSums16 = false;
  V32 sum[kGroups];

  HWY_INLINE void start(int group, V32 from) { sum[group] = from; }
  HWY_INLINE void add(int group, V8 w, V32 x) {
    sum[group] = V32{_mm512_dpbusd_epi32(sum[group].raw, w.raw, x.raw)};
    MEADOW_PIN(sum[group]);
  }
  HWY_INLINE VF value(V32) const { return hn::ConvertTo(df, sum[0]); }
  // Below 2^24, as the halves are: exact in any order.
  HWY_INLINE VF value(SubScale first, SubScale second) const {
    return hn::MulAdd(hn::ConvertTo(df, sum[1]), second, hn::Mul(hn::ConvertTo(df, sum[0]), first));
  }
};
#else
// Sums of two products in 16 bits, widened at the end. A product of a byte below 64 and one of at
// most 127 leaves room for one more; sums may wrap around in between, but not in the end: with the
// offset folded in they are below 8 · 2 · 16 · 127 (5 bits), 4 · 2 · 32 · 127 (half a block of 6).
template <int kGroups>
struct NarrowDot {
  static constexpr bool kSums16 = true;
  V16 sum[kGroups];

  HWY_INLINE void start(int group, V32 from) { sum[group] = hn::BitCast(d16, from); }
  static HWY_INLINE V16 multiply(V8 w, V8 x) {
#if HWY_TARGET == HWY_AVX3
    return V16{_mm512_maddubs_epi16(w.raw, x.raw)};
#elif HWY_TARGET == HWY_AVX2
    return V16{_mm256_maddubs_epi16(w.raw, x.raw)};
#else
    const V16 a = hn::BitCast(d16, w), b = hn::BitCast(d16, x);
    const V16 even = hn::Mul(hn::And(a, hn::Set(d16, 255)), hn::ShiftRight<8>(hn::ShiftLeft<8>(b)));
    return hn::Add(even, hn::Mul(hn::ShiftRight<8>(a), hn::ShiftRight<8>(b)));
#endif
  }
  HWY_INLINE void add(int group, V8 w, V32 x) {
    sum[group] = hn::Add(sum[group], multiply(w, hn::BitCast(d8, x)));
    MEADOW_PIN(sum[group]);
  }
  HWY_INLINE VF value(V32 correction) const {
    return hn::ConvertTo(df, hn::Add(multiply_pairs(sum[0], hn::Set(d16, 1)), correction));
  }
  HWY_INLINE VF value(SubScale first, SubScale second) const {
    return hn::ConvertTo(df,
                         hn::Add(multiply_pairs(sum[0], first), multiply_pairs(sum[1], second)));
  }
};
#endif

// The signed bytes of a vector as 16-bit numbers: columns 0 and 2 of every dword, and 1 and 3.
HWY_INLINE V16 even_bytes(V8 w) { return hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(d16, w))); }
HWY_INLINE V16 odd_bytes(V8 w) { return hn::ShiftRight<8>(hn::BitCast(d16, w)); }

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
