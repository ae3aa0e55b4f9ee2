// Norms, activations, additions, rotary positions. Per-target header.
#if defined(MEADOW_KERNELS_ELEMENTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_ELEMENTWISE_INL_H_
#undef MEADOW_KERNELS_ELEMENTWISE_INL_H_
#else
#define MEADOW_KERNELS_ELEMENTWISE_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "kernels/chains-inl.h"
#include "kernels/elementwise.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

HWY_INLINE float merge(const Chains& chains) {
  float c[8];
  store_chains(chains, c);
  return merge_chains(c);
}

// The float rule over x · x.    x: f32 [d]
HWY_INLINE float sum_of_squares(const float* x, int64_t d) {
  Chains sum = zero_chains();
  int64_t i = 0;
  for (; i + 8 <= d; i += 8) {
    const Chains v = load_chains(x + i);
    add_product(v, v, sum);
  }
  if (i < d) {
    float padded[8] = {};
    std::copy_n(x + i, d - i, padded);
    const Chains v = load_chains(padded);
    add_product(v, v, sum);
  }
  return merge(sum);
}

void rms_norm(const float* x, const float* weight, float eps, int64_t d, int64_t n, float* y) {
  for (int64_t t = 0; t < n; t++, x += d, y += d) {
    const float mean = sum_of_squares(x, d) / static_cast<float>(d);
    const float r = 1.0f / std::sqrt(mean + eps);
    const VF rs = hn::Set(df, r);
    int64_t i = 0;
    for (; i + kLanes <= d; i += kLanes) {
      const VF scaled = hn::Mul(hn::LoadU(df, x + i), rs);
      hn::StoreU(hn::Mul(scaled, hn::LoadU(df, weight + i)), df, y + i);
    }
    for (; i < d; i++) y[i] = x[i] * r * weight[i];
  }
}

HWY_INLINE void silu_mul_vector(const float* gate, const float* up, float* out) {
  hn::StoreU(hn::Mul(silu_lanes(hn::LoadU(df, gate)), hn::LoadU(df, up)), df, out);
}

void silu_mul(const float* gate, const float* up, int64_t count, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) silu_mul_vector(gate + i, up + i, out + i);
  if (i == count) return;
  float g[kLanes] = {}, u[kLanes] = {};
  std::copy(gate + i, gate + count, g);
  std::copy(up + i, up + count, u);
  silu_mul_vector(g, u, g);
  std::copy_n(g, count - i, out + i);
}

void add(const float* a, const float* b, int64_t count, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(hn::Add(hn::LoadU(df, a + i), hn::LoadU(df, b + i)), df, out + i);
  for (; i < count; i++) out[i] = a[i] + b[i];
}

void add_rows(float* x, const float* bias, int64_t d, int64_t n) {
  for (int64_t t = 0; t < n; t++) add(x + t * d, bias, d, x + t * d);
}

// One vector of pairs.
HWY_INLINE void turn(VF& a, VF& b, VF c, VF s) {
  const VF old_a = a;
  a = hn::MulSub(old_a, c, hn::Mul(b, s));
  b = hn::MulAdd(old_a, s, hn::Mul(b, c));
}
HWY_INLINE void turn_one(float& a, float& b, float c, float s) {
  VF va = hn::Set(df, a), vb = hn::Set(df, b);
  turn(va, vb, hn::Set(df, c), hn::Set(df, s));
  a = hn::GetLane(va);
  b = hn::GetLane(vb);
}

void rope_head(float* x, int64_t half, const float* cos, const float* sin, RopeStyle style) {
  int64_t i = 0;
  if (style == RopeStyle::kHalves) {
    for (; i + kLanes <= half; i += kLanes) {
      VF a = hn::LoadU(df, x + i), b = hn::LoadU(df, x + half + i);
      turn(a, b, hn::LoadU(df, cos + i), hn::LoadU(df, sin + i));
      hn::StoreU(a, df, x + i);
      hn::StoreU(b, df, x + half + i);
    }
    for (; i < half; i++) turn_one(x[i], x[half + i], cos[i], sin[i]);
    return;
  }
  for (; i + kLanes <= half; i += kLanes) {
    VF a, b;
    hn::LoadInterleaved2(df, x + 2 * i, a, b);
    turn(a, b, hn::LoadU(df, cos + i), hn::LoadU(df, sin + i));
    hn::StoreInterleaved2(a, b, df, x + 2 * i);
  }
  for (; i < half; i++) turn_one(x[2 * i], x[2 * i + 1], cos[i], sin[i]);
}

void rope(float* x, int64_t head_dim, int64_t n_head, const RopeTable& table, RopeStyle style) {
  for (int64_t t = 0; t < table.positions(); t++)
    for (int64_t h = 0; h < n_head; h++)
      rope_head(x + (t * n_head + h) * head_dim, table.n_rot() / 2, table.cos(t), table.sin(t),
                style);
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
