// Exact integer dot products of one block of 32 columns, a row per 32-bit lane. Per-target header.
#if defined(MEADOW_KERNELS_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_DOTS_INL_H_
#undef MEADOW_KERNELS_DOTS_INL_H_
#else
#define MEADOW_KERNELS_DOTS_INL_H_
#endif

#include "kernels/decoders-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

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
  HWY_INLINE V32 total() const { return hn::RearrangeToOddPlusEven(a, b); }
};

// Unsigned weights of at most 4 bits times signed 8-bit activations, four columns per dword.
#if HWY_TARGET == HWY_AVX3_DL
struct NarrowDot {
  V32 sum;

  HWY_INLINE void start() { sum = hn::Zero(d32); }
  HWY_INLINE void add(V8 w, V32 x) {
    sum = V32{_mm512_dpbusd_epi32(sum.raw, w.raw, x.raw)};
    MEADOW_PIN(sum);
  }
  HWY_INLINE V32 total() const { return sum; }
};
#else
// Sums of two products in 16 bits: 8 times 2 · 15 · 127 is 30480, no overflow. Widened at the end.
struct NarrowDot {
  V16 sum;

  HWY_INLINE void start() { sum = hn::Zero(d16); }
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
  HWY_INLINE void add(V8 w, V32 x) {
    sum = hn::Add(sum, multiply(w, hn::BitCast(d8, x)));
    MEADOW_PIN(sum);
  }
  HWY_INLINE V32 total() const {
    V32 b = hn::Zero(d32);
    const V32 a = hn::ReorderWidenMulAccumulate(d32, sum, hn::Set(d16, 1), hn::Zero(d32), b);
    return hn::RearrangeToOddPlusEven(a, b);
  }
};
#endif

// The signed bytes of a vector as 16-bit numbers: columns 0 and 2 of every dword, and 1 and 3.
HWY_INLINE V16 even_bytes(V8 w) { return hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(d16, w))); }
HWY_INLINE V16 odd_bytes(V8 w) { return hn::ShiftRight<8>(hn::BitCast(d16, w)); }

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
