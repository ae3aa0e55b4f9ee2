// The weighted sum of what the experts of a token gave. Per-target header.
#if defined(MEADOW_KERNELS_EXPERTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_EXPERTS_INL_H_
#undef MEADOW_KERNELS_EXPERTS_INL_H_
#else
#define MEADOW_KERNELS_EXPERTS_INL_H_
#endif

#include "kernels/chains-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

// Values [i, i + lanes of d) of one token.
template <class D>
HWY_INLINE void sum_lanes(D d, const float* y, const float* weights, int64_t m, int64_t n_used,
                          int64_t i, float* out) {
  auto acc = hn::Zero(d);
  for (int64_t s = 0; s < n_used; s++)
    acc = hn::MulAdd(hn::Set(d, weights[s]), hn::LoadU(d, y + s * m + i), acc);
  hn::StoreU(acc, d, out + i);
}

void sum_experts(const float* y, const float* weights, int64_t m, int64_t n_used, int64_t n,
                 float* out) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  constexpr int64_t kStep = HWY_MAX_BYTES / 4;
  for (int64_t t = 0; t < n; t++, y += m * n_used, weights += n_used, out += m) {
    int64_t i = 0;
    for (; i + kStep <= m; i += kStep) sum_lanes(d, y, weights, m, n_used, i, out);
    for (; i < m; i++) sum_lanes(one, y, weights, m, n_used, i, out);
  }
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
