// The inner loops of attention: scores, weights and weighted values of one group of 64 positions
// for a tile of 1 to 4 queries, which share every load of a key or value. Per-target header.
#if defined(MEADOW_KERNELS_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_ATTENTION_TILES_INL_H_
#undef MEADOW_KERNELS_ATTENTION_TILES_INL_H_
#else
#define MEADOW_KERNELS_ATTENTION_TILES_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <limits>

#include "kernels/attention.h"
#include "kernels/chains-inl.h"
#include "kernels/math-inl.h"
#include "kernels/page.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int kTileRows = 4;
// Vectors of positions or of values that a tile holds side by side: as many sums as registers
// allow.
constexpr int kTileVectors = HWY_MAX_BYTES == 32 ? 2 : 4;

// Keys [64, head_dim] or values [stride, 64] of a head as f32. One call gives a vector: of
// neighbouring positions `column` of element `row` for keys, of neighbouring elements `column` of
// position `row` for values.
struct FromF32 {
  static constexpr int64_t kBytes = 4;
  HWY_INLINE VF operator()(int64_t row, int64_t column) const {
    return hn::Load(df, reinterpret_cast<const float*>(data) + row * stride + column);
  }
  const uint8_t* data;
  int64_t stride;
};
struct FromF16 {
  static constexpr int64_t kBytes = 2;
  HWY_INLINE VF operator()(int64_t row, int64_t column) const {
    const hn::Rebind<hwy::float16_t, DF> half;
    const hn::Repartition<uint8_t, decltype(half)> bytes;
    const uint8_t* at = data + 2 * (row * stride + column);
    return hn::PromoteTo(df, hn::BitCast(half, hn::LoadU(bytes, at)));
  }
  const uint8_t* data;
  int64_t stride;
};
HWY_INLINE VF from_bytes(const uint8_t* at) {
  const hn::Rebind<int8_t, DF> bytes;
  return hn::ConvertTo(df,
                       hn::PromoteTo(d32, hn::LoadU(bytes, reinterpret_cast<const int8_t*>(at))));
}
// The product with the scale, 8 by 11 bits, is exact.    scales: f32 [64, blocks]
struct KeysFromQ8 {
  static constexpr int64_t kBytes = 1;
  HWY_INLINE VF operator()(int64_t row, int64_t column) const {
    const VF scale = hn::Load(df, scales + row / kCacheBlock * kPagePositions + column);
    return hn::Mul(from_bytes(data + row * stride + column), scale);
  }
  const uint8_t* data;
  int64_t stride;
  const float* scales;
};
struct ValuesFromQ8 {
  static constexpr int64_t kBytes = 1;
  HWY_INLINE VF operator()(int64_t row, int64_t column) const {
    const VF scale = hn::Set(df, scales[column / kCacheBlock * kPagePositions + row]);
    return hn::Mul(from_bytes(data + row * stride + column), scale);
  }
  const uint8_t* data;
  int64_t stride;
  const float* scales;
};

// Asks for what lies `ahead` bytes after `vectors` vectors from (row, column) on: the same place of
// the page that comes next. Pages lie anywhere, so the processor cannot guess it.
template <class From>
HWY_INLINE void prefetch(const From& from, int64_t row, int64_t column, int vectors,
                         int64_t ahead) {
  const uint8_t* at = from.data + (row * from.stride + column) * From::kBytes + ahead;
  for (int64_t byte = 0; byte < vectors * kLanes * From::kBytes; byte += 64)
    hwy::Prefetch(at + byte);
}

// out: f32 [columns, rows]; columns a multiple of the vector
template <class From>
HWY_INLINE void widen(const From& from, int64_t rows, int64_t columns, float* out) {
  for (int64_t row = 0; row < rows; row++)
    for (int64_t column = 0; column < columns; column += kLanes, out += kLanes)
      hn::Store(from(row, column), df, out);
}

// The order in which chains are merged as pairs, pairs of pairs, and so on, by halving.
constexpr int kChainOrder[8] = {0, 4, 2, 6, 1, 5, 3, 7};

// sums[0] = the merged sums of `count` chains or groups of them.
template <int kCount, int T, int V>
HWY_INLINE void merge_chains_of(VF (*sums)[T][V]) {
  MEADOW_UNROLL for (int width = 1; width < kCount; width *= 2) {
    MEADOW_UNROLL for (int i = 0; i < kCount; i += 2 * width) {
      MEADOW_UNROLL for (int t = 0; t < T; t++) {
        MEADOW_UNROLL for (int v = 0; v < V; v++) sums[i][t][v] =
            hn::Add(sums[i][t][v], sums[i + width][t][v]);
      }
    }
  }
}

// Scores of V vectors of positions from `begin` for T queries. Positions are lanes and the 8 chains
// are separate vectors, C of them at a time, so merging them needs no shuffles. Padding of head_dim
// is left out: it could only turn -0 into +0, which exp does not see.
template <int T, int V, int C, class Keys>
HWY_INLINE void score_columns(const Keys& keys, int64_t head_dim, const float* const* q, VF scale,
                              int64_t begin, int64_t ahead, float* scores) {
  VF sums[8 / C][T][V];
  const int64_t whole = head_dim / 8 * 8;
  for (int pass = 0; pass < 8 / C; pass++) {
    VF acc[C][T][V];
    MEADOW_UNROLL for (int c = 0; c < C; c++) {
      MEADOW_UNROLL for (int t = 0; t < T; t++) {
        MEADOW_UNROLL for (int v = 0; v < V; v++) acc[c][t][v] = hn::Zero(df);
      }
    }
    const auto add = [&](int c, int64_t i) HWY_ATTR {
      VF key[V];
      MEADOW_UNROLL for (int v = 0; v < V; v++) key[v] = keys(i, begin + v * kLanes);
      if (ahead != 0) prefetch(keys, i, begin, V, ahead);
      MEADOW_UNROLL for (int t = 0; t < T; t++) {
        const VF x = hn::Set(df, q[t][i]);
        MEADOW_UNROLL for (int v = 0; v < V; v++) acc[c][t][v] =
            hn::MulAdd(x, key[v], acc[c][t][v]);
      }
    };
    const int* order = kChainOrder + pass * C;
    for (int64_t i = 0; i < whole; i += 8) {
      MEADOW_UNROLL for (int c = 0; c < C; c++) add(c, i + order[c]);
    }
    MEADOW_UNROLL for (int c = 0; c < C; c++) {
      if (whole + order[c] < head_dim) add(c, whole + order[c]);
    }
    merge_chains_of<C, T, V>(acc);
    MEADOW_UNROLL for (int t = 0; t < T; t++) {
      MEADOW_UNROLL for (int v = 0; v < V; v++) sums[pass][t][v] = acc[0][t][v];
    }
  }
  merge_chains_of<8 / C, T, V>(sums);
  for (int t = 0; t < T; t++)
    for (int v = 0; v < V; v++)
      hn::Store(hn::Mul(sums[0][t][v], scale), df,
                scores + t * kPagePositions + begin + v * kLanes);
}
// Scores of at least the first `count` positions.    q: T of f32 [head_dim]    scores: f32 [64, T]
template <int T, class Keys>
HWY_NOINLINE void score_tile(const Keys& keys, int64_t head_dim, const float* const* q, float scale,
                             int64_t count, int64_t ahead, float* scores) {
  constexpr int kChains = T == 1 ? 4 : T == 2 ? 2 : 1;
  for (int64_t begin = 0; begin < count; begin += kTileVectors * kLanes)
    score_columns<T, kTileVectors, kChains>(keys, head_dim, q, hn::Set(df, scale), begin, ahead,
                                            scores);
}

// Turns the first count[t] scores of query t into weights, the rest into zeros, and updates maxima
// and sums. rescale: the factors for what was summed before.
//   scores: f32 [64, T]    max, sum, rescale: f32 [T]
template <int T>
HWY_NOINLINE void weigh_tile(const int64_t* count, float* scores, float* max, float* sum,
                             float* rescale) {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  HWY_ALIGN float change[kLanes] = {}, new_max[T];
  for (int t = 0; t < T; t++) {
    float* score = scores + t * kPagePositions;
    // exp makes zeros of these, which change neither maximum nor sum.
    std::fill(score + count[t], score + kPagePositions, kMinusInfinity);
    VF largest = hn::Load(df, score);
    for (int64_t i = kLanes; i < kPagePositions; i += kLanes)
      largest = hn::Max(largest, hn::Load(df, score + i));
    new_max[t] = std::max(max[t], hn::GetLane(hn::MaxOfLanes(df, largest)));
    change[t] = max[t] - new_max[t];
  }
  hn::Store(exp_of_negative(hn::Load(df, change)), df, change);
  Chains chains[4];
  for (Chains& c : chains) c = zero_chains();
  for (int t = 0; t < T; t++) {
    float* weight = scores + t * kPagePositions;
    const VF shift = hn::Set(df, new_max[t]);
    for (int64_t i = 0; i < kPagePositions; i += kLanes)
      hn::Store(exp_of_negative(hn::Sub(hn::Load(df, weight + i), shift)), df, weight + i);
  }
  for (int64_t i = 0; i < kPagePositions; i += 8) {
    for (int t = 0; t < T; t++) {
      const Chains w = load_chains(scores + t * kPagePositions + i);
      for (int v = 0; v < kChainVectors; v++) chains[t].v[v] = hn::Add(chains[t].v[v], w.v[v]);
    }
  }
  HWY_ALIGN float added[4];
  hn::Store(merge_four(chains[0], chains[1], chains[2], chains[3]), d4, added);
  for (int t = 0; t < T; t++) {
    max[t] = new_max[t];
    rescale[t] = change[t];
    sum[t] =
        hn::GetLane(hn::MulAdd(hn::Set(d4, sum[t]), hn::Set(d4, change[t]), hn::Set(d4, added[t])));
  }
}

// out[t] = out[t] · rescale[t] + weight · value for positions [begin, end), V vectors from `d` on.
template <int T, int V, class From>
HWY_INLINE void add_value_columns(const From& values, const float* weights, const float* rescale,
                                  int64_t begin, int64_t end, int64_t d, int64_t ahead,
                                  float* const* out) {
  VF acc[T][V];
  MEADOW_UNROLL for (int t = 0; t < T; t++) {
    MEADOW_UNROLL for (int v = 0; v < V; v++) acc[t][v] =
        hn::Mul(hn::Load(df, out[t] + d + v * kLanes), hn::Set(df, rescale[t]));
  }
  for (int64_t s = begin; s < end; s++) {
    VF value[V];
    MEADOW_UNROLL for (int v = 0; v < V; v++) value[v] = values(s, d + v * kLanes);
    if (ahead != 0) prefetch(values, s, d, V, ahead);
    MEADOW_UNROLL for (int t = 0; t < T; t++) {
      const VF w = hn::Set(df, weights[t * kPagePositions + s]);
      MEADOW_UNROLL for (int v = 0; v < V; v++) acc[t][v] = hn::MulAdd(w, value[v], acc[t][v]);
    }
  }
  MEADOW_UNROLL for (int t = 0; t < T; t++) {
    MEADOW_UNROLL for (int v = 0; v < V; v++) hn::Store(acc[t][v], df, out[t] + d + v * kLanes);
  }
}
//   weights: f32 [64, T]    rescale: f32 [T]    out: T of f32 [stride]
template <int T, class From>
HWY_NOINLINE void add_values(const From& values, const float* weights, const float* rescale,
                             int64_t begin, int64_t end, int64_t ahead, float* const* out) {
  constexpr int kMost = T <= 2 ? 2 * kTileVectors : kTileVectors;
  int64_t d = 0;
  for (; d + kMost * kLanes <= values.stride; d += kMost * kLanes)
    add_value_columns<T, kMost>(values, weights, rescale, begin, end, d, ahead, out);
  for (; d + 2 * kLanes <= values.stride; d += 2 * kLanes)
    add_value_columns<T, 2>(values, weights, rescale, begin, end, d, ahead, out);
  for (; d < values.stride; d += kLanes)
    add_value_columns<T, 1>(values, weights, rescale, begin, end, d, ahead, out);
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
