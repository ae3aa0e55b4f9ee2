// Attention: see order_free.h. foreach_target includes this file once per target.
//
// A tile is up to kRows queries of one cache head, whatever their position and head of the model.
// Scores of a block of 256 positions stay in the L1 cache: positions in lanes, one chain per score;
// then the block's values are added, head dimension in lanes, one chain per output.
#include "order_free/order_free.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "order_free/attention.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/simd_setup.h"
#include "kernels/target.h"
// clang-format on

#if MEADOW_HAVE_SIMD
#include "order_free/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::bench::order_free::HWY_NAMESPACE {

constexpr int64_t kBlock = 256;  // positions
constexpr int kRows = HWY_MAX_BYTES == 64 ? 12 : 6;

// e to the x, x <= 0, to about one unit in the last place.
HWY_INLINE VF exponential(VF x) {
  const VF n = hn::Round(hn::Mul(x, hn::Set(df, 1.44269504f)));
  VF r = hn::NegMulAdd(n, hn::Set(df, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(df, -2.12194440e-4f), r);
  VF p = hn::Set(df, 1.9875691500e-4f);
  for (const float c :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = hn::MulAdd(p, r, hn::Set(df, c));
  const VF e = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(df, 1.0f));
  const V32 power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(d32, n), hn::Set(d32, 127)));
  const VF result = hn::Mul(e, hn::BitCast(df, power));
  return hn::IfThenElse(hn::Lt(x, hn::Set(df, -87.0f)), hn::Zero(df), result);
}

// scores[t][position] of one block.    q: f32 [T, head_dim], scaled    keys: f16 [256, head_dim]
template <int T>
HWY_NOINLINE void score_block(const float* q, const uint16_t* keys, int64_t head_dim,
                              float* scores) {
  for (int64_t p = 0; p < kBlock; p += 2 * kLanes) {
    VF acc[T][2];
    MEADOW_UNROLL for (int t = 0; t < T; t++) acc[t][0] = acc[t][1] = hn::Zero(df);
    for (int64_t i = 0; i < head_dim; i++) {
      const VF k0 = load_half(keys + i * kBlock + p),
               k1 = load_half(keys + i * kBlock + p + kLanes);
      MEADOW_UNROLL for (int t = 0; t < T; t++) {
        const VF value = hn::Set(df, q[i * T + t]);
        acc[t][0] = hn::MulAdd(k0, value, acc[t][0]);
        acc[t][1] = hn::MulAdd(k1, value, acc[t][1]);
        MEADOW_PIN(acc[t][0]);
        MEADOW_PIN(acc[t][1]);
      }
    }
    MEADOW_UNROLL for (int t = 0; t < T; t++) {
      hn::Store(acc[t][0], df, scores + t * kBlock + p);
      hn::Store(acc[t][1], df, scores + t * kBlock + p + kLanes);
    }
  }
}

// out[t][d] += weights[t][position] · values[position][d].    weights: f32 [T, 256]
template <int T>
HWY_NOINLINE void add_block(const float* weights, const uint16_t* values, int64_t head_dim,
                            int64_t positions, float* out) {
  for (int64_t d = 0; d < head_dim; d += 2 * kLanes) {
    VF acc[T][2];
    MEADOW_UNROLL for (int t = 0; t < T; t++) MEADOW_UNROLL for (int v = 0; v < 2; v++) acc[t][v] =
        hn::Load(df, out + t * head_dim + d + v * kLanes);
    for (int64_t p = 0; p < positions; p++) {
      const VF v0 = load_half(values + p * head_dim + d);
      const VF v1 = load_half(values + p * head_dim + d + kLanes);
      MEADOW_UNROLL for (int t = 0; t < T; t++) {
        const VF w = hn::Set(df, weights[p * T + t]);
        acc[t][0] = hn::MulAdd(v0, w, acc[t][0]);
        acc[t][1] = hn::MulAdd(v1, w, acc[t][1]);
        MEADOW_PIN(acc[t][0]);
        MEADOW_PIN(acc[t][1]);
      }
    }
    MEADOW_UNROLL for (int t = 0; t < T; t++) MEADOW_UNROLL for (int v = 0; v < 2; v++)
        hn::Store(acc[t][v], df, out + t * head_dim + d + v * kLanes);
  }
}

// Scores of one row of a block become weights; positions from `valid` on count nothing.
struct Running {
  float largest, sum;
};
HWY_INLINE float soften(float* scores, int64_t valid, Running& running) {
  const VF none = hn::Set(df, -1e30f);
  VF top = none;
  for (int64_t p = 0; p < kBlock; p += kLanes) {
    const VF lane = hn::Add(hn::Iota(df, 0.0f), hn::Set(df, static_cast<float>(p)));
    const auto seen = hn::Lt(lane, hn::Set(df, static_cast<float>(valid)));
    const VF s = hn::IfThenElse(seen, hn::Load(df, scores + p), none);
    hn::Store(s, df, scores + p);
    top = hn::Max(top, s);
  }
  const float largest = std::max(running.largest, hn::GetLane(hn::MaxOfLanes(df, top)));
  const float factor = hn::GetLane(exponential(hn::Set(df, running.largest - largest)));
  VF sum = hn::Zero(df);
  for (int64_t p = 0; p < kBlock; p += kLanes) {
    const VF w = exponential(hn::Sub(hn::Load(df, scores + p), hn::Set(df, largest)));
    hn::Store(w, df, scores + p);
    sum = hn::Add(sum, w);
  }
  running.largest = largest;
  running.sum = running.sum * factor + hn::GetLane(hn::SumOfLanes(df, sum));
  return factor;
}

// Rows [first, first + T) of the n · group rows of one cache head; a row is a query of one head.
template <int T>
HWY_NOINLINE void attend(const Call& c, int64_t cache_head, int64_t first) {
  const int64_t dim = c.cache.head_dim, group = c.n_head / c.cache.n_head_kv;
  const auto at = [&](int t) {
    const int64_t row = first + t;
    return (row / group * c.n_head + cache_head * group + row % group) * dim;
  };
  HWY_ALIGN static thread_local float q[kRows * 256], scores[kRows * kBlock],
      weights[kRows * kBlock], out[kRows * 256];
  for (int t = 0; t < T; t++)
    for (int64_t i = 0; i < dim; i++) q[i * T + t] = c.q[at(t) + i] * c.scale;
  std::fill_n(out, T * dim, 0.0f);
  Running running[T];
  for (Running& r : running) r = {-1e30f, 0};
  const int64_t end = c.first_position + (first + T - 1) / group + 1;
  for (int64_t p = 0; p < end; p += kBlock) {
    score_block<T>(q, c.cache.keys + ((p / kBlock) * c.cache.n_head_kv + cache_head) * dim * kBlock,
                   dim, scores);
    for (int t = 0; t < T; t++) {
      const int64_t seen = c.first_position + (first + t) / group + 1 - p;
      const float factor = soften(scores + t * kBlock, seen, running[t]);
      for (int64_t i = 0; i < dim; i++) out[t * dim + i] *= factor;
      for (int64_t i = 0; i < kBlock; i++) weights[i * T + t] = scores[t * kBlock + i];
    }
    add_block<T>(weights, c.cache.values + (cache_head * c.cache.positions + p) * dim, dim,
                 std::min(kBlock, end - p), out);
  }
  for (int t = 0; t < T; t++)
    for (int64_t i = 0; i < dim; i++) c.out[at(t) + i] = out[t * dim + i] / running[t].sum;
}
template <int T>
void attend_of(int rows, const Call& c, int64_t cache_head, int64_t first) {
  if constexpr (T > 1) {
    if (rows < T) return attend_of<T - 1>(rows, c, cache_head, first);
  }
  attend<T>(c, cache_head, first);
}

void attention(const Call& c, ThreadPool& pool) {
  const int64_t rows = c.n * (c.n_head / c.cache.n_head_kv), tiles = (rows + kRows - 1) / kRows;
  pool.run(static_cast<size_t>(tiles * c.cache.n_head_kv), 1, [&](size_t begin, size_t end, int) {
    for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(end); i++) {
      const int64_t first = i % tiles * kRows;
      attend_of<kRows>(static_cast<int>(std::min<int64_t>(kRows, rows - first)), c, i / tiles,
                       first);
    }
  });
}

}  // namespace meadow::bench::order_free::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEADOW_HAVE_SIMD

#if HWY_ONCE
namespace meadow::bench::order_free {
namespace {

using Attention = void (*)(const Call&, ThreadPool&);

Attention for_target() {
  switch (kernels::active_target()) {
#if HWY_TARGETS & HWY_AVX2
    case kernels::Target::kAvx2:
      return N_AVX2::attention;
#endif
#if HWY_TARGETS & HWY_AVX3
    case kernels::Target::kAvx512:
      return N_AVX3::attention;
#endif
#if HWY_TARGETS & HWY_AVX3_DL
    case kernels::Target::kAvx512Vnni:
      return N_AVX3_DL::attention;
#endif
    default:
      return nullptr;
  }
}

}  // namespace

bool has_attention() { return for_target() != nullptr; }

void attention(const Cache& cache, int64_t first_position, int64_t n, const float* q,
               int64_t n_head, float scale, float* out, ThreadPool& pool) {
  if (const Attention run = for_target())
    run({cache, first_position, n, n_head, q, scale, out}, pool);
}

}  // namespace meadow::bench::order_free
#endif  // HWY_ONCE
