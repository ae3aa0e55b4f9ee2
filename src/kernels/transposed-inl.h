// Transposed products x = Wᵀ y by the float rule over the rows of W. Per-target header.
//
// Columns of W become rows of a panel: strips of rows are dequantised and turned, some hundred at a
// time, and the tiles of the float products do the rest, their chains waiting between the strips.
#if defined(MEADOW_KERNELS_TRANSPOSED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_TRANSPOSED_INL_H_
#undef MEADOW_KERNELS_TRANSPOSED_INL_H_
#else
#define MEADOW_KERNELS_TRANSPOSED_INL_H_
#endif

#include <algorithm>

#include "kernels/dequantise-inl.h"
#include "kernels/float_matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int64_t kPanelFloats = 65536;  // of a panel: it stays in the L2 cache
constexpr int64_t kPanelColumns = 64;    // of W, or one block of its type if that is more

// to[c · ldt + r] = from[r · ldf + c], 4 x 4 values.
HWY_INLINE void turn_four(const float* from, int64_t ldf, float* to, int64_t ldt) {
  const hn::RepartitionToWide<D4> d64;
  const auto a = hn::LoadU(d4, from), b = hn::LoadU(d4, from + ldf);
  const auto c = hn::LoadU(d4, from + 2 * ldf), d = hn::LoadU(d4, from + 3 * ldf);
  const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d4, a, b));
  const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d4, a, b));
  const auto cd_low = hn::BitCast(d64, hn::InterleaveLower(d4, c, d));
  const auto cd_high = hn::BitCast(d64, hn::InterleaveUpper(d4, c, d));
  hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d64, ab_low, cd_low)), d4, to);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d64, ab_low, cd_low)), d4, to + ldt);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d64, ab_high, cd_high)), d4, to + 2 * ldt);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d64, ab_high, cd_high)), d4, to + 3 * ldt);
}

class TransposedProduct {
 public:
  TransposedProduct(const Matrix& w, const float* y, int64_t n, float* x, ThreadPool& pool,
                    Scratch& scratch)
      : w_(w),
        x_(x),
        pool_(pool),
        scratch_(scratch),
        y_(y, w.m, n, pool, scratch),
        columns_(std::max(kPanelColumns, info(w.type).block_values)),
        piece_(std::min(kPanelFloats / columns_, piece_columns(y_))),
        stride_(piece_ + 16),
        tiles_at_once_(tiles_at_once(y_)) {}

  void run() {
    const int64_t sums = tiles_at_once_ * columns_ / kFloatRows * tile_sums<ManyTokens>();
    const int64_t panel = columns_ * stride_, strip = kFloatRows * columns_;
    const int64_t room = sums + panel + strip;
    float* work = scratch_.get<float>(Scratch::kPanels, static_cast<size_t>(pool_.size() * room));
    run_ieee(pool_, (w_.k + columns_ - 1) / columns_, 1,
             [=, this](int64_t begin, int64_t end, int worker) {
               float* at = work + worker * room;
               for (int64_t g = begin; g < end; g++)
                 group(g * columns_, {at, at + sums, at + sums + panel});
             });
  }

 private:
  struct Work {
    float* sums;
    float* panel;  // f32 [stride_, columns_]
    float* strip;  // f32 [columns_, 4]
  };

  void group(int64_t first, const Work& work) const {
    GroupPiece g;
    g.data = reinterpret_cast<const uint8_t*>(work.panel);
    g.stride = stride_ * 4;
    g.rows = std::min(columns_, w_.k - first);
    g.sums = work.sums;
    g.y = x_ + first;
    g.ldy = w_.k;
    for (int64_t tile = 0; tile < y_.tiles(); tile += tiles_at_once_) {
      g.column = 0;
      do {  // once even without rows: the results are then zero
        g.columns = std::min(piece_, w_.m - g.column);
        fill(first, g.rows, g.column, g.columns, work);
        multiply_piece<ManyTokens, DecodeF32>(y_, g, tile,
                                              std::min(tile + tiles_at_once_, y_.tiles()));
        g.column += g.columns;
      } while (g.column < w_.m);
    }
  }

  // Columns [first, first + columns) of `rows` rows of W.
  void fill(int64_t first, int64_t columns, int64_t first_row, int64_t rows,
            const Work& work) const {
    const uint8_t* data = w_.data + row_bytes(w_.type, first);
    for (int64_t r = 0; r < rows; r += 4) {
      for (int64_t i = 0; i < 4; i++) {  // beyond the last row: that row again, never read
        const int64_t row = first_row + std::min(r + i, rows - 1);
        dequantise_row(w_.type, data + row * row_bytes(w_.type, w_.k), columns,
                       work.strip + i * columns_);
      }
      for (int64_t c = 0; c < columns; c += 4)
        turn_four(work.strip + c, columns_, work.panel + c * stride_ + r, stride_);
    }
  }

  const Matrix& w_;
  float* x_;
  ThreadPool& pool_;
  Scratch& scratch_;
  TiledActivations<ManyTokens> y_;
  int64_t columns_, piece_;
  int64_t stride_;  // of a panel's rows: more than a piece, or powers of two share cache sets
  int64_t tiles_at_once_;
};

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
