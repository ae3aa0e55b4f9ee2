// Quantised weights times a few tokens: a row at a time, lanes along its columns, two accumulators
// per token. Activations are rounded as ours are. Per-target header: HWY_TARGET_TOGGLE guards it.
#if defined(MEADOW_BENCH_QUANTISED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_BENCH_QUANTISED_ROWS_INL_H_
#undef MEADOW_BENCH_QUANTISED_ROWS_INL_H_
#else
#define MEADOW_BENCH_QUANTISED_ROWS_INL_H_
#endif

#include "kernels/reference.h"
#include "order_free/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::bench::order_free::HWY_NAMESPACE {

// Blocks of 32 columns whose 16 bytes of nibbles fill a vector.
constexpr int kBlocks = HWY_MAX_BYTES / 16;

HWY_INLINE V32 narrow_dot(V32 sum, V8 low, V8 x_low, V8 high, V8 x_high) {
#if HWY_TARGET == HWY_AVX3_DL
  return V32{
      _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum.raw, low.raw, x_low.raw), high.raw, x_high.raw)};
#elif HWY_TARGET == HWY_AVX3
  const __m512i both = _mm512_add_epi16(_mm512_maddubs_epi16(low.raw, x_low.raw),
                                        _mm512_maddubs_epi16(high.raw, x_high.raw));
  return hn::Add(sum, V32{_mm512_madd_epi16(both, _mm512_set1_epi16(1))});
#elif HWY_TARGET == HWY_AVX2
  const __m256i both = _mm256_add_epi16(_mm256_maddubs_epi16(low.raw, x_low.raw),
                                        _mm256_maddubs_epi16(high.raw, x_high.raw));
  return hn::Add(sum, V32{_mm256_madd_epi16(both, _mm256_set1_epi16(1))});
#else
  (void)low, (void)x_low, (void)high, (void)x_high;
  return sum;  // no table is made for other targets
#endif
}

// A half-precision number of each of kBlocks blocks, over the four lanes of its block.
template <class D>
HWY_INLINE hn::Vec<D> spread_halves(D d, const uint8_t* p, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::Set(d, half_at(p));
  } else {
    const hn::Half<D> half;
    const int64_t blocks = static_cast<int64_t>(hn::MaxLanes(D())) / 8;
    return hn::Combine(d, spread_halves(half, p + blocks * stride, stride),
                       spread_halves(half, p, stride));
  }
}
template <class D>
HWY_INLINE hn::Vec<D> join_blocks(D d, const uint8_t* p, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 16) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    const int64_t blocks = static_cast<int64_t>(hn::MaxLanes(D())) / 32;
    return hn::Combine(d, join_blocks(half, p + blocks * stride, stride),
                       join_blocks(half, p, stride));
  }
}

// Q4_0 and Q4_1: kBlocks blocks a step.
template <DType kType>
struct Nibbles {
  static constexpr DType kStored = kType;
  static constexpr bool kMinimum = kType == DType::kQ4_1;
  static constexpr int64_t kBytes = info(kType).block_bytes, kHead = kMinimum ? 4 : 2;
  static constexpr int kStepBlocks = kBlocks;
  struct alignas(64) Step {
    int8_t low[HWY_MAX_BYTES], high[HWY_MAX_BYTES];
    int32_t offset[kLanes];
    float d[kLanes], sum[kLanes];  // sum: once per block
  };

  static void prepare(const float* x, Step& step) {
    for (int b = 0; b < kBlocks; b++) {
      const auto a = kernels::reference::quantise_activations(x + 32 * b, 127);
      int all = 0;
      for (int j = 0; j < 16; j++) {
        step.low[16 * b + j] = static_cast<int8_t>(a.q[j]);
        step.high[16 * b + j] = static_cast<int8_t>(a.q[16 + j]);
      }
      for (int j = 0; j < 4; j++) {
        int sum = 0;
        for (int c = 0; c < 4; c++) sum += a.q[4 * j + c] + a.q[16 + 4 * j + c];
        all += sum;
        step.offset[4 * b + j] = kMinimum ? 0 : -8 * sum;
        step.d[4 * b + j] = a.d;
        step.sum[4 * b + j] = 0;
      }
      step.sum[4 * b] = static_cast<float>(all) * a.d;
    }
  }

  // Weights of a step.
  V8 low, high;
  VF scale, minimum;
  HWY_INLINE void load(const uint8_t* p) {
    V8 z;
#if HWY_TARGET == HWY_AVX3_DL
    if constexpr (!kMinimum) {  // a permutation of bytes lays out three blocks and all four scales
      HWY_ALIGN static constexpr auto kTables = tables();
      const __m512i all = _mm512_loadu_si512(p);
      z = V8{_mm512_mask_broadcast_i32x4(
          _mm512_permutexvar_epi8(_mm512_load_si512(kTables.nibbles), all), 0xf000,
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 56)))};
      scale = VF{_mm512_cvtph_ps(
          _mm512_castsi512_si256(_mm512_permutexvar_epi8(_mm512_load_si512(kTables.scales), all)))};
    } else
#endif
    {
      z = join_blocks(d8, p + kHead, kBytes);
      scale = spread_halves(df, p, kBytes);
    }
    if constexpr (kMinimum) minimum = spread_halves(df, p + 2, kBytes);
    low = hn::And(z, hn::Set(d8, 15));
    high = hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, z))), hn::Set(d8, 15));
  }
  HWY_INLINE void add(const Step& x, VF& acc, VF& minimums) const {
    const auto bytes = [](const int8_t* p) {
      return hn::Load(d8, reinterpret_cast<const uint8_t*>(p));
    };
    const V32 s = narrow_dot(hn::Load(d32, x.offset), low, bytes(x.low), high, bytes(x.high));
    acc = hn::MulAdd(hn::ConvertTo(df, s), hn::Mul(scale, hn::Load(df, x.d)), acc);
    if constexpr (kMinimum) minimums = hn::MulAdd(minimum, hn::Load(df, x.sum), minimums);
  }

 private:
  struct Tables {
    alignas(64) uint8_t nibbles[64], scales[64];
  };
  static constexpr Tables tables() {
    Tables t{};
    for (int b = 0; b < 4; b++)
      for (int j = 0; j < 16; j++)
        t.nibbles[16 * b + j] = static_cast<uint8_t>((18 * b + 2 + j) & 63);
    for (int l = 0; l < 16; l++) {
      t.scales[2 * l] = static_cast<uint8_t>(l / 4 * 18);
      t.scales[2 * l + 1] = static_cast<uint8_t>(l / 4 * 18 + 1);
    }
    return t;
  }
};

// Q8_0 with 16-bit activations: one block a step.
struct SignedBytes {
  static constexpr DType kStored = DType::kQ8_0;
  static constexpr bool kMinimum = false;
  static constexpr int64_t kBytes = info(DType::kQ8_0).block_bytes;
  static constexpr int kStepBlocks = 1, kVectors = 64 / HWY_MAX_BYTES;
  struct alignas(64) Step {
    int16_t q[32];
    float d;
  };

  static void prepare(const float* x, Step& step) {
    const auto a = kernels::reference::quantise_activations(x, 32767);
    std::copy_n(a.q, 32, step.q);
    step.d = a.d;
  }

  V16 w[kVectors];
  float scale;
  HWY_INLINE void load(const uint8_t* p) {
    const hn::Rebind<int8_t, D16> half;
    MEADOW_UNROLL for (int v = 0; v < kVectors; v++) w[v] = hn::PromoteTo(
        d16, hn::LoadU(half, reinterpret_cast<const int8_t*>(p) + 2 + v * HWY_MAX_BYTES / 2));
    scale = half_at(p);
  }
  HWY_INLINE void add(const Step& x, VF& acc, VF&) const {
    V32 sum = hn::Zero(d32), unused = hn::Zero(d32);
    MEADOW_UNROLL for (int v = 0; v < kVectors; v++) {
      const V16 q = hn::Load(d16, x.q + v * HWY_MAX_BYTES / 2);
#if HWY_TARGET == HWY_AVX3_DL
      sum = V32{_mm512_dpwssd_epi32(sum.raw, w[v].raw, q.raw)};
#else
      sum = hn::ReorderWidenMulAccumulate(d32, w[v], q, sum, unused);
#endif
    }
    acc = hn::MulAdd(hn::ConvertTo(df, sum), hn::Set(df, scale * x.d), acc);
  }
};

template <class Type, int T>
HWY_INLINE void quantised_row(const uint8_t* row, const typename Type::Step* x, int64_t steps,
                              float* y, int64_t m) {
  constexpr int64_t kStepBytes = Type::kBytes * Type::kStepBlocks;
  VF acc[T][2], minimums[T];
  MEADOW_UNROLL for (int t = 0; t < T; t++) acc[t][0] = acc[t][1] = minimums[t] = hn::Zero(df);
  for (int64_t i = 0; i < steps; i += 2) {
    MEADOW_UNROLL for (int p = 0; p < 2; p++) {
      const uint8_t* at = row + (i + p) * kStepBytes;
      hint(at);
      if constexpr (kStepBytes > 64) hint(at + 64);
      Type w;
      w.load(at);
      MEADOW_UNROLL for (int t = 0; t < T; t++) w.add(x[t * steps + i + p], acc[t][p], minimums[t]);
    }
  }
  MEADOW_UNROLL for (int t = 0; t < T; t++) y[t * m] =
      hn::GetLane(hn::SumOfLanes(df, hn::Add(hn::Add(acc[t][0], acc[t][1]), minimums[t])));
}

template <class Type>
void quantised_rows(const kernels::Matrix& w, const float* x, int64_t n, float* y,
                    ThreadPool& pool) {
  using Step = typename Type::Step;
  constexpr int64_t kColumns = 32 * Type::kStepBlocks;
  const int64_t steps = w.k / kColumns, stride = row_bytes(w.type, w.k);
  static std::vector<Step> activations;
  activations.resize(static_cast<size_t>(steps * n));
  for (int64_t i = 0; i < steps * n; i++)
    Type::prepare(x + i * kColumns, activations[static_cast<size_t>(i)]);
  pool.run(static_cast<size_t>(w.m), 32, [&](size_t begin, size_t end, int) {
    for (size_t r = begin; r < end; r++) {
      const uint8_t* row = w.data + static_cast<int64_t>(r) * stride;
      const Step* a = activations.data();
      if (n == 1) quantised_row<Type, 1>(row, a, steps, y + r, w.m);
      if (n == 2) quantised_row<Type, 2>(row, a, steps, y + r, w.m);
      if (n == 3) quantised_row<Type, 3>(row, a, steps, y + r, w.m);
      if (n == 4) quantised_row<Type, 4>(row, a, steps, y + r, w.m);
    }
  });
}

}  // namespace meadow::bench::order_free::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
