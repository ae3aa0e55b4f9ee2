// Vectors of the order-free kernels. Per-target header: HWY_TARGET_TOGGLE guards it.
#if defined(MEADOW_BENCH_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_BENCH_LANES_INL_H_
#undef MEADOW_BENCH_LANES_INL_H_
#else
#define MEADOW_BENCH_LANES_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace meadow::bench::order_free::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::ScalableTag<uint8_t>;
using D16 = hn::ScalableTag<int16_t>;
using D32 = hn::ScalableTag<int32_t>;
using DF = hn::ScalableTag<float>;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
using VF = hn::Vec<DF>;
constexpr D8 d8;
constexpr D16 d16;
constexpr D32 d32;
constexpr DF df;
constexpr int kLanes = HWY_MAX_BYTES / 4;
constexpr int64_t kAhead = 4096;  // bytes that hints run ahead of the loads of a row

HWY_INLINE void hint(const uint8_t* p) { hwy::Prefetch(p + kAhead); }

HWY_INLINE VF load_half(const uint16_t* p) {
  const hn::Rebind<hwy::float16_t, DF> half;
  return hn::PromoteTo(df, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
}

// The half-precision number at p (8 bytes may be read), in every lane.
HWY_INLINE float half_at(const uint8_t* p) {
  const hn::CappedTag<float, 4> d4;
  const hn::Rebind<hwy::float16_t, decltype(d4)> half;
  return hn::GetLane(
      hn::PromoteTo(d4, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p))));
}

// 16 bytes at p of every row; out[j] has bytes 4j … 4j + 3 of each, a row per lane.
template <class D>
HWY_INLINE hn::Vec<D> every_fourth(D d, const uint8_t* p, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 16) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    const int64_t rows = static_cast<int64_t>(hn::MaxLanes(D())) / 8;
    return hn::Combine(d, every_fourth(half, p + rows * stride, stride),
                       every_fourth(half, p, stride));
  }
}
HWY_INLINE void transpose(const uint8_t* p, int64_t stride, V32 out[4]) {
  const hn::ScalableTag<int64_t> d64;
  V32 a[4];
  MEADOW_UNROLL for (int r = 0; r < 4; r++) a[r] =
      hn::BitCast(d32, every_fourth(d8, p + r * stride, stride));
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d32, a[0], a[1]));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d32, a[0], a[1]));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d32, a[2], a[3]));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d32, a[2], a[3]));
  out[0] = hn::BitCast(d32, hn::InterleaveLower(d64, low01, low23));
  out[1] = hn::BitCast(d32, hn::InterleaveUpper(d64, low01, low23));
  out[2] = hn::BitCast(d32, hn::InterleaveLower(d64, high01, high23));
  out[3] = hn::BitCast(d32, hn::InterleaveUpper(d64, high01, high23));
}

}  // namespace meadow::bench::order_free::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
