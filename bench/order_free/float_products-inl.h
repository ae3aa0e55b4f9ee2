// Float weights times f32 activations. Per-target header: HWY_TARGET_TOGGLE guards it.
#if defined(MEADOW_BENCH_FLOAT_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_BENCH_FLOAT_PRODUCTS_INL_H_
#undef MEADOW_BENCH_FLOAT_PRODUCTS_INL_H_
#else
#define MEADOW_BENCH_FLOAT_PRODUCTS_INL_H_
#endif

#include "order_free/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::bench::order_free::HWY_NAMESPACE {

struct F32 {
  static constexpr int kBytes = 4;
  static HWY_INLINE VF load(const uint8_t* p) {
    return hn::LoadU(df, reinterpret_cast<const float*>(p));
  }
};
struct F16 {
  static constexpr int kBytes = 2;
  static HWY_INLINE VF load(const uint8_t* p) {
    return load_half(reinterpret_cast<const uint16_t*>(p));
  }
};
struct BF16 {
  static constexpr int kBytes = 2;
  static HWY_INLINE VF load(const uint8_t* p) {
    const hn::Rebind<hwy::bfloat16_t, DF> half;
    return hn::PromoteTo(df, hn::LoadU(half, reinterpret_cast<const hwy::bfloat16_t*>(p)));
  }
};

// One row times T tokens, 4 accumulators in all or one per token.
template <class Type, int T>
HWY_INLINE void float_row(const uint8_t* row, const float* x, int64_t k, float* y, int64_t m) {
  constexpr int kParts = T == 1 ? 4 : 2;
  VF acc[T][kParts];
  MEADOW_UNROLL for (auto& token : acc) MEADOW_UNROLL for (VF& a : token) a = hn::Zero(df);
  for (int64_t i = 0; i < k; i += kParts * kLanes) {
    for (int b = 0; b < kParts * kLanes * Type::kBytes; b += 64) hint(row + i * Type::kBytes + b);
    MEADOW_UNROLL for (int p = 0; p < kParts; p++) {
      const int64_t at = i + p * kLanes;
      const VF w = Type::load(row + at * Type::kBytes);
      MEADOW_UNROLL for (int t = 0; t < T; t++) acc[t][p] =
          hn::MulAdd(w, hn::LoadU(df, x + t * k + at), acc[t][p]);
    }
  }
  MEADOW_UNROLL for (int t = 0; t < T; t++) {
    VF sum = hn::Add(acc[t][0], acc[t][1]);
    if constexpr (kParts == 4) sum = hn::Add(sum, hn::Add(acc[t][2], acc[t][3]));
    y[t * m] = hn::GetLane(hn::SumOfLanes(df, sum));
  }
}

template <class Type, int T>
void float_rows_of(const kernels::Matrix& w, const float* x, float* y, ThreadPool& pool) {
  pool.run(static_cast<size_t>(w.m), 64, [&](size_t begin, size_t end, int) {
    for (size_t r = begin; r < end; r++)
      float_row<Type, T>(w.data + static_cast<int64_t>(r) * w.k * Type::kBytes, x, w.k, y + r, w.m);
  });
}

template <class Type>
void float_rows(const kernels::Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool) {
  if (n == 1) float_rows_of<Type, 1>(w, x, y, pool);
  if (n == 2) float_rows_of<Type, 2>(w, x, y, pool);
  if (n == 3) float_rows_of<Type, 3>(w, x, y, pool);
  if (n == 4) float_rows_of<Type, 4>(w, x, y, pool);
}

// Panels: 2 vectors of rows, kChunk columns; tiles of kTile tokens.
constexpr int kPanelRows = 2 * kLanes;
constexpr int kTile = HWY_MAX_BYTES == 64 ? 12 : 6;  // accumulators: 24 of 32 registers, 12 of 16
constexpr int64_t kChunk = 1024;

// y[t · m + row] for T tokens, continuing from y unless `first`.
//   w: f32 [kPanelRows, k]    a: f32 [T, k]
template <int T>
HWY_NOINLINE void float_tile(const float* w, const float* a, int64_t k, bool first, float* y,
                             int64_t m) {
  VF acc[T][2];
  MEADOW_UNROLL for (int t = 0; t < T; t++) MEADOW_UNROLL for (int v = 0; v < 2; v++) acc[t][v] =
      first ? hn::Zero(df) : hn::LoadU(df, y + t * m + v * kLanes);
  for (int64_t i = 0; i < k; i++, w += kPanelRows, a += T) {
    const VF w0 = hn::Load(df, w), w1 = hn::Load(df, w + kLanes);
    MEADOW_UNROLL for (int t = 0; t < T; t++) {
      const VF value = hn::Set(df, a[t]);
      acc[t][0] = hn::MulAdd(w0, value, acc[t][0]);
      acc[t][1] = hn::MulAdd(w1, value, acc[t][1]);
      MEADOW_PIN(acc[t][0]);
      MEADOW_PIN(acc[t][1]);
    }
  }
  MEADOW_UNROLL for (int t = 0; t < T; t++) MEADOW_UNROLL for (int v = 0; v < 2; v++)
      hn::StoreU(acc[t][v], df, y + t * m + v * kLanes);
}
template <int T>
void float_tile_of(int tokens, const float* w, const float* a, int64_t k, bool first, float* y,
                   int64_t m) {
  if constexpr (T > 1) {
    if (tokens < T) return float_tile_of<T - 1>(tokens, w, a, k, first, y, m);
  }
  float_tile<T>(w, a, k, first, y, m);
}

// Columns [first, first + count) of kPanelRows rows, rows in lanes.
template <class Type>
void pack_panel(const uint8_t* rows, int64_t stride, int64_t count, float* unpacked, float* out) {
  for (int r = 0; r < kPanelRows; r++)
    for (int64_t i = 0; i < count; i += kLanes)
      hn::Store(Type::load(rows + r * stride + i * Type::kBytes), df, unpacked + r * kChunk + i);
  const auto* bytes = reinterpret_cast<const uint8_t*>(unpacked);
  for (int v = 0; v < 2; v++)
    for (int64_t i = 0; i < count; i += 4) {
      V32 columns[4];
      transpose(bytes + (v * kLanes * kChunk + i) * 4, 4 * kChunk, columns);
      MEADOW_UNROLL for (int j = 0; j < 4; j++)
          hn::Store(hn::BitCast(df, columns[j]), df, out + (i + j) * kPanelRows + v * kLanes);
    }
}

template <class Type>
void float_panels(const kernels::Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool) {
  const int64_t tiles = (n + kTile - 1) / kTile, stride = w.k * Type::kBytes;
  const auto tokens = [&](int64_t i) {
    return static_cast<int>(std::min<int64_t>(kTile, n - i * kTile));
  };
  static std::vector<float> activations;  // kept: memory of the first call is not to be timed
  activations.resize(static_cast<size_t>(w.k * n));
  float* a = activations.data();
  pool.run(static_cast<size_t>(tiles), 1, [&](size_t begin, size_t end, int) {
    for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(end); i++)
      for (int t = 0; t < tokens(i); t++)
        for (int64_t c = 0; c < w.k; c++)
          a[i * kTile * w.k + c * tokens(i) + t] = x[(i * kTile + t) * w.k + c];
  });
  pool.run(static_cast<size_t>(w.m / kPanelRows), 1, [&](size_t begin, size_t end, int) {
    HWY_ALIGN static thread_local float unpacked[kPanelRows * kChunk], panel[kPanelRows * kChunk];
    for (auto p = static_cast<int64_t>(begin); p < static_cast<int64_t>(end); p++)
      for (int64_t c = 0; c < w.k; c += kChunk) {
        const int64_t count = std::min(kChunk, w.k - c);
        pack_panel<Type>(w.data + p * kPanelRows * stride + c * Type::kBytes, stride, count,
                         unpacked, panel);
        for (int64_t i = 0; i < tiles; i++)
          float_tile_of<kTile>(tokens(i), panel, a + i * kTile * w.k + c * tokens(i), count, c == 0,
                               y + i * kTile * w.m + p * kPanelRows, w.m);
      }
  });
}

}  // namespace meadow::bench::order_free::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
