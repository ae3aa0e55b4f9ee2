// The innermost kernel of the quantised products: rows in lanes times a few tokens. Per-target
// header.
#if defined(MEADOW_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_TILE_INL_H_
#undef MEADOW_KERNELS_TILE_INL_H_
#else
#define MEADOW_KERNELS_TILE_INL_H_
#endif

#include <type_traits>

#include "kernels/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

HWY_INLINE VF broadcast_float(const int32_t* p) { return hn::BitCast(df, hn::Set(d32, *p)); }

// Adds the b-th block of the source to the chains of T tokens.    a: the tile's block
template <int T, class Source>
HWY_INLINE void add_block(const Source& source, int b, const int32_t* a,
                          VF acc[Source::kVectors][T]) {
  using Decoder = typename Source::Decoder;
  constexpr ActivationLayout kLayout = layout_for<Decoder>();
  constexpr int kVectors = Source::kVectors, kX = kLayout.x_dwords(), kGroups = Decoder::kGroups;
  using Dot = std::conditional_t<Decoder::kWide, WideDot, NarrowDot<kGroups>>;
  const auto field = [a](int at, int t) { return hn::Set(d32, a[at * T + t]); };
  Dot dot[kVectors][T];
  MEADOW_UNROLL for (int v = 0; v < kVectors; v++) {
    MEADOW_UNROLL for (int t = 0; t < T; t++) {
      if constexpr (Decoder::kWide) {
        dot[v][t].start();
      } else {
        MEADOW_UNROLL for (int g = 0; g < kGroups; g++) dot[v][t].start(
            g, kLayout.has_starts() ? field(kX + g, t) : hn::Zero(d32));
      }
    }
  }
  MEADOW_UNROLL for (int j = 0; j < kX; j++) {
    MEADOW_UNROLL for (int v = 0; v < kVectors; v++) {
      if constexpr (Decoder::kWide) {
        const V16 w = source.words(v, b, j);
        MEADOW_UNROLL for (int t = 0; t < T; t++) dot[v][t].add(w, field(j, t));
      } else {
        const V8 w = source.bytes(v, b, j);
        MEADOW_UNROLL for (int t = 0; t < T; t++) dot[v][t].add(j * kGroups / kX, w, field(j, t));
      }
    }
  }
  MEADOW_UNROLL for (int v = 0; v < kVectors; v++) {
    const VF scale = source.scale(v, b);
    MEADOW_UNROLL for (int t = 0; t < T; t++) {
      const VF d = broadcast_float(a + kLayout.d_at() * T + t);
      VF sum;
      if constexpr (Decoder::kWide) {
        sum = dot[v][t].value();
      } else if constexpr (kGroups == 2) {
        sum = dot[v][t].value(source.sub_scales(v, b, 0), source.sub_scales(v, b, 1));
      } else {
        sum = dot[v][t].value(kLayout.has_correction() ? field(kLayout.correction_at(), t)
                                                       : hn::Zero(d32));
      }
      acc[v][t] = hn::MulAdd(sum, hn::Mul(scale, d), acc[v][t]);
      if constexpr (Decoder::kMinimum == Minimum::kFloat)
        acc[v][t] = hn::MulAdd(source.minimum(v, b), broadcast_float(a + kLayout.sum_at() * T + t),
                               acc[v][t]);
      if constexpr (Decoder::kMinimum == Minimum::kPairs) {
        const V32 minimums =
            multiply_pairs(source.minimums(v, b), hn::BitCast(d16, field(kLayout.sum_at(), t)));
        acc[v][t] =
            hn::MulAdd(source.minimum(v, b), hn::Mul(hn::ConvertTo(df, minimums), d), acc[v][t]);
      }
    }
  }
}

// y[t · ldy + row] for T tokens and all rows of the source; unless `first`, continues the chains
// that y holds.    a: a tile of activations
//   kEnds: `blocks` need not be a multiple of the source's (the test in the loop costs)
template <int T, bool kEnds, class Source>
HWY_NOINLINE void tile(Source source, int64_t blocks, const int32_t* a, bool first, float* y,
                       int64_t ldy) {
  constexpr int kVectors = Source::kVectors, kBlocks = Source::kBlocks;
  constexpr int kStep = layout_for<typename Source::Decoder>().dwords() * T;
  VF acc[kVectors][T];
  MEADOW_UNROLL for (int v = 0; v < kVectors; v++) {
    MEADOW_UNROLL for (int t = 0; t < T; t++) acc[v][t] =
        first ? hn::Zero(df) : hn::LoadU(df, y + t * ldy + v * kLanes);
  }
  for (int64_t done = 0; done < blocks; done += kBlocks) {
    source.next();
    MEADOW_UNROLL for (int b = 0; b < kBlocks; b++) {
      if (kEnds && done + b >= blocks) break;
      source.load_block(b);
      add_block<T>(source, b, a, acc);
      a += kStep;
    }
  }
  MEADOW_UNROLL for (int v = 0; v < kVectors; v++) {
    MEADOW_UNROLL for (int t = 0; t < T; t++) hn::StoreU(acc[v][t], df, y + t * ldy + v * kLanes);
  }
}

// tile() for a number of tokens known at run time, at most T.
template <int T, bool kEnds, class Source>
void tile_of(int tokens, const Source& source, int64_t blocks, const int32_t* a, bool first,
             float* y, int64_t ldy) {
  if constexpr (T > 1) {
    if (tokens < T) return tile_of<T - 1, kEnds>(tokens, source, blocks, a, first, y, ldy);
  }
  tile<T, kEnds>(source, blocks, a, first, y, ldy);
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
