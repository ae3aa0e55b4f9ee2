// Rounds keys and values into a page, for each type of cache. Keys lie with positions fastest, so
// one position's are rounded as vectors and put down one by one; successive positions of a head
// find those lines in the nearest cache. Per-target header.
#if defined(MEADOW_KERNELS_STORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_STORE_INL_H_
#undef MEADOW_KERNELS_STORE_INL_H_
#else
#define MEADOW_KERNELS_STORE_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "base/half.h"
#include "kernels/math-inl.h"
#include "kernels/page.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

// Each rounder takes kCacheBlock values, of which the last may be padding zeros, to elements in
// `out`; false if something is not finite once rounded. A NaN fails every comparison.
struct RoundF32 {
  using Element = float;
  static HWY_INLINE bool block(const float* x, float* out, uint16_t*) {
    const VF most = hn::Set(df, std::numeric_limits<float>::max());
    auto fits = hn::Eq(most, most);
    for (int64_t i = 0; i < kCacheBlock; i += kLanes) {
      const VF v = hn::LoadU(df, x + i);
      fits = hn::And(fits, hn::Le(hn::Abs(v), most));
      hn::StoreU(v, df, out + i);
    }
    return hn::AllTrue(df, fits);
  }
};
struct RoundF16 {
  using Element = uint16_t;
  static HWY_INLINE bool block(const float* x, uint16_t* out, uint16_t*) {
    const hn::Rebind<hwy::float16_t, DF> half;
    const hn::Rebind<uint16_t, DF> bits;
    const VF too_much = hn::Set(df, 65520.0f);  // rounds to infinity, as all above
    auto fits = hn::Eq(too_much, too_much);
    for (int64_t i = 0; i < kCacheBlock; i += kLanes) {
      const VF v = hn::LoadU(df, x + i);
      fits = hn::And(fits, hn::Lt(hn::Abs(v), too_much));
      hn::StoreU(hn::BitCast(bits, hn::DemoteTo(half, v)), bits, out + i);
    }
    return hn::AllTrue(df, fits);
  }
};
struct RoundQ8 {
  using Element = int8_t;
  static HWY_INLINE bool block(const float* x, int8_t* out, uint16_t* scale_out) {
    const hn::Rebind<int8_t, DF> bytes;
    const VF most = hn::Set(df, std::numeric_limits<float>::max());
    auto fits = hn::Eq(most, most);
    VF largest = hn::Zero(df);
    for (int64_t i = 0; i < kCacheBlock; i += kLanes) {
      const VF magnitude = hn::Abs(hn::LoadU(df, x + i));
      fits = hn::And(fits, hn::Le(magnitude, most));
      largest = hn::Max(largest, magnitude);
    }
    *scale_out = float_to_half(hn::GetLane(hn::MaxOfLanes(df, largest)) / 127.0f);
    if (!hn::AllTrue(df, fits) || (*scale_out & 0x7c00) == 0x7c00) return false;
    const VF scale = hn::Set(df, half_to_float(*scale_out)), bound = hn::Set(df, 127.0f);
    const auto scaled = hn::Gt(scale, hn::Zero(df));
    for (int64_t i = 0; i < kCacheBlock; i += kLanes) {
      const VF q = hn::IfThenElseZero(scaled, hn::Div(hn::LoadU(df, x + i), scale));
      const VF clamped = hn::Max(hn::Min(q, bound), hn::Neg(bound));
      hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(clamped)), bytes, out + i);
    }
    return true;
  }
};

// Keys or values of one head: n positions from `slot` on. Element i of position s goes to
// to[(s · position_step + i · element_step)].
//   x: f32 [head_dim, n], positions x_step apart    scales: f16 [64, blocks]
template <class Round>
HWY_INLINE bool store_rows(const float* x, int64_t x_step, int64_t head_dim, int64_t slot,
                           int64_t n, uint8_t* page, int64_t position_step, int64_t element_step,
                           uint8_t* page_scales) {
  using Element = typename Round::Element;
  auto* to = reinterpret_cast<Element*>(page);
  auto* scales = reinterpret_cast<uint16_t*>(page_scales);
  bool fits = true;
  for (int64_t s = slot; s < slot + n; s++, x += x_step)
    for (int64_t i = 0; i < head_dim; i += kCacheBlock) {
      const int64_t count = std::min(kCacheBlock, head_dim - i);
      float padded[kCacheBlock] = {};
      if (count < kCacheBlock) std::copy_n(x + i, count, padded);
      Element rounded[kCacheBlock];
      uint16_t scale;
      fits &= Round::block(count < kCacheBlock ? padded : x + i, rounded, &scale);
      if constexpr (sizeof(Element) == 1) scales[i / kCacheBlock * kPagePositions + s] = scale;
      Element* at = to + s * position_step + i * element_step;
      if (element_step == 1)
        std::copy_n(rounded, count, at);
      else
        for (int64_t j = 0; j < count; j++) at[j * element_step] = rounded[j];
    }
  return fits;
}

template <class Round>
HWY_NOINLINE bool store_head_as(const PageLayout& layout, uint8_t* page, int64_t head, int64_t slot,
                                int64_t n, const float* k, const float* v, int64_t step) {
  const bool keys =
      store_rows<Round>(k, step, layout.head_dim, slot, n, page + layout.key(head, 0, 0), 1,
                        kPagePositions, page + layout.key_scale(head, 0, 0));
  return store_rows<Round>(v, step, layout.head_dim, slot, n, page + layout.value(head, 0, 0),
                           layout.value_stride, 1, page + layout.value_scale(head, 0, 0)) &&
         keys;
}

bool store_head(const PageLayout& layout, uint8_t* page, int64_t head, int64_t slot, int64_t n,
                const float* k, const float* v, int64_t step) {
  if (layout.quantised) return store_head_as<RoundQ8>(layout, page, head, slot, n, k, v, step);
  if (layout.element_bytes == 2)
    return store_head_as<RoundF16>(layout, page, head, slot, n, k, v, step);
  return store_head_as<RoundF32>(layout, page, head, slot, n, k, v, step);
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
