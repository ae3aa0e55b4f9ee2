// The inner loops of attention: scores, weights and weighted values of one group of 64 positions.
// Per-target header.
#if defined(MEADOW_KERNELS_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_ATTENTION_TILES_INL_H_
#undef MEADOW_KERNELS_ATTENTION_TILES_INL_H_
#else
#define MEADOW_KERNELS_ATTENTION_TILES_INL_H_
#endif

#include "kernels/attention.h"
#include "kernels/chains-inl.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int kTileRows = 4;  // queries that share loads of keys and values

// Widens `count` halves, a multiple of the vector.
HWY_INLINE void widen(const uint8_t* halves, int64_t count, float* out) {
  const hn::Rebind<hwy::float16_t, DF> half;
  const hn::Repartition<uint8_t, decltype(half)> bytes;
  for (int64_t i = 0; i < count; i += kLanes)
    hn::Store(hn::PromoteTo(df, hn::BitCast(half, hn::LoadU(bytes, halves + 2 * i))), df, out + i);
}

// Scores of positions [begin, begin + 2 vectors) for T queries. Positions are lanes and the 8
// chains are separate vectors, so merging them needs no shuffles. Padding of head_dim is left out:
// it could only turn -0 into +0, which exp does not see.
//   keys: f32 [64, head_dim]    scores: f32 [64, T]
template <int T>
HWY_INLINE void score_columns(const float* keys, int64_t head_dim, const float* const* q, VF scale,
                              int64_t begin, float* scores) {
  VF chain[8][T][2];
  for (int c = 0; c < 8; c++) {
    VF acc[T][2];
    for (auto& row : acc) row[0] = row[1] = hn::Zero(df);
    for (int64_t i = c; i < head_dim; i += 8) {
      const VF k0 = hn::Load(df, keys + i * kPagePositions + begin);
      const VF k1 = hn::Load(df, keys + i * kPagePositions + begin + kLanes);
      MEADOW_UNROLL for (int t = 0; t < T; t++) {
        const VF x = hn::Set(df, q[t][i]);
        acc[t][0] = hn::MulAdd(x, k0, acc[t][0]);
        acc[t][1] = hn::MulAdd(x, k1, acc[t][1]);
      }
    }
    for (int t = 0; t < T; t++) chain[c][t][0] = acc[t][0], chain[c][t][1] = acc[t][1];
  }
  for (int t = 0; t < T; t++)
    for (int v = 0; v < 2; v++) {
      const auto pair = [&](int a) HWY_ATTR { return hn::Add(chain[a][t][v], chain[a + 4][t][v]); };
      const VF sum = hn::Add(hn::Add(pair(0), pair(2)), hn::Add(pair(1), pair(3)));
      hn::Store(hn::Mul(sum, scale), df, scores + t * kPagePositions + begin + v * kLanes);
    }
}
template <int T>
HWY_NOINLINE void score_tile(const float* keys, int64_t head_dim, const float* const* q,
                             float scale, int64_t count, float* scores) {
  for (int64_t begin = 0; begin < count; begin += 2 * kLanes)
    score_columns<T>(keys, head_dim, q, hn::Set(df, scale), begin, scores);
}

// Turns the first `count` scores into weights, the rest into zeros, and updates maximum and sum.
// Returns the factor for what was summed before.    scores: f32 [64]
HWY_NOINLINE float weigh(int64_t count, float* scores, float& max, float& sum) {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  VF largest = hn::Set(df, kMinusInfinity);
  const auto valid = [&](int64_t i) HWY_ATTR {
    return hn::FirstN(df,
                      static_cast<size_t>(count > i ? std::min<int64_t>(count - i, kLanes) : 0));
  };
  for (int64_t i = 0; i < count; i += kLanes)
    largest = hn::Max(
        largest, hn::IfThenElse(valid(i), hn::Load(df, scores + i), hn::Set(df, kMinusInfinity)));
  const float new_max = std::max(max, hn::GetLane(hn::MaxOfLanes(df, largest)));
  const float rescale = exp_one(max - new_max);
  const VF shift = hn::Set(df, new_max);
  for (int64_t i = 0; i < kPagePositions; i += kLanes) {
    const VF w = exp_lanes(hn::Sub(hn::Load(df, scores + i), shift));
    hn::Store(hn::IfThenElse(valid(i), w, hn::Zero(df)), df, scores + i);
  }
  Chains chains = zero_chains();
  for (int64_t i = 0; i < count; i += 8) {
    const Chains w = load_chains(scores + i);
    for (int v = 0; v < kChainVectors; v++) chains.v[v] = hn::Add(chains.v[v], w.v[v]);
  }
  float c[8];
  store_chains(chains, c);
  max = new_max;
  sum =
      hn::GetLane(hn::MulAdd(hn::Set(df, sum), hn::Set(df, rescale), hn::Set(df, merge_chains(c))));
  return rescale;
}

// out[t] += weight · value for positions [begin, end), for V vectors of the head dimension from d
// on.
template <int T, int V>
HWY_INLINE void add_value_columns(const float* values, int64_t stride, const float* weights,
                                  int64_t begin, int64_t end, int64_t d, float* const* out) {
  VF acc[T][V];
  for (int t = 0; t < T; t++)
    for (int v = 0; v < V; v++) acc[t][v] = hn::Load(df, out[t] + d + v * kLanes);
  for (int64_t s = begin; s < end; s++) {
    VF value[V];
    MEADOW_UNROLL for (int v = 0; v < V; v++) value[v] =
        hn::Load(df, values + s * stride + d + v * kLanes);
    MEADOW_UNROLL for (int t = 0; t < T; t++) {
      const VF w = hn::Set(df, weights[t * kPagePositions + s]);
      MEADOW_UNROLL for (int v = 0; v < V; v++) acc[t][v] = hn::MulAdd(w, value[v], acc[t][v]);
    }
  }
  for (int t = 0; t < T; t++)
    for (int v = 0; v < V; v++) hn::Store(acc[t][v], df, out[t] + d + v * kLanes);
}
//   values: f32 [stride, 64]    weights: f32 [64, T]    out: T of f32 [stride]
template <int T>
HWY_NOINLINE void add_values(const float* values, int64_t stride, const float* weights,
                             int64_t begin, int64_t end, float* const* out) {
  int64_t d = 0;
  for (; d + 2 * kLanes <= stride; d += 2 * kLanes)
    add_value_columns<T, 2>(values, stride, weights, begin, end, d, out);
  for (; d < stride; d += kLanes)
    add_value_columns<T, 1>(values, stride, weights, begin, end, d, out);
}

HWY_INLINE void scale_in_place(float* x, int64_t count, float factor) {
  for (int64_t i = 0; i < count; i += kLanes)
    hn::Store(hn::Mul(hn::Load(df, x + i), hn::Set(df, factor)), df, x + i);
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
