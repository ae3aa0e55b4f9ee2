// Float weights times f32 activations by the float rule. Per-target header.
//
// Weights are used as they lie. Few tokens: four rows at a time stream past, whole. Many tokens:
// groups of rows are taken piece by piece, so that a tile's share of the activations stays in the
// L1 cache while the group passes; the chains wait in memory between the pieces.
#if defined(MEADOW_KERNELS_FLOAT_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_FLOAT_MATMUL_INL_H_
#undef MEADOW_KERNELS_FLOAT_MATMUL_INL_H_
#else
#define MEADOW_KERNELS_FLOAT_MATMUL_INL_H_
#endif

#include <algorithm>

#include "kernels/float_environment.h"
#include "kernels/float_tiles-inl.h"
#include "kernels/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int64_t kFloatGroup = 64;  // rows that a thread takes at a time
constexpr int64_t kPieceFloats =
    8192;  // activations of a piece of a tile: they stay in the L1 cache
constexpr int64_t kTokensAtOnce = 256;  // whose chains wait, for one group, in the L2 cache

// Activations in the order in which tiles read them: for every tile of tokens and every 8 columns
// the values of each token, padded with zeros to whole eights and whole vectors of tokens.
template <class Form>
class TiledActivations {
 public:
  // x: f32 [k, n], n >= 1
  TiledActivations(const float* x, int64_t k, int64_t n, ThreadPool& pool, Scratch& scratch)
      : x_(x), k_(k), n_(n) {
    const int64_t vectors = (n + Form::kTokens - 1) / Form::kTokens;
    tiles_ = (vectors + Form::kMostVectors - 1) / Form::kMostVectors;
    tile_vectors_ = static_cast<int>((vectors + tiles_ - 1) / tiles_);  // tiles of like size
    tiles_ = (vectors + tile_vectors_ - 1) / tile_vectors_;
    if (Form::kTokens == 1 && n == 1 && k % 8 == 0) {
      tiled_ = x;
      return;
    }
    float* out =
        scratch.get<float>(Scratch::kActivations, static_cast<size_t>(vectors * kStep * eights()));
    tiled_ = out;
    run_ieee(pool, tiles_, 1, [this, out](int64_t begin, int64_t end, int) {
      for (int64_t tile = begin; tile < end; tile++) lay_out(tile, out + offset(tile));
    });
  }

  int64_t columns() const { return k_; }
  int64_t tiles() const { return tiles_; }
  int tile_vectors() const { return tile_vectors_; }
  int64_t first_token(int64_t tile) const { return tile * tile_vectors_ * Form::kTokens; }
  int tokens(int64_t tile) const {
    return static_cast<int>(
        std::min<int64_t>(tile_vectors_ * Form::kTokens, n_ - first_token(tile)));
  }
  int vectors(int64_t tile) const { return (tokens(tile) + Form::kTokens - 1) / Form::kTokens; }
  // From a column on, a multiple of 8.
  const float* at(int64_t tile, int64_t column) const {
    return tiled_ + offset(tile) + column * vectors(tile) * Form::kTokens;
  }

 private:
  static constexpr int kStep = 8 * Form::kTokens;

  int64_t eights() const { return (k_ + 7) / 8; }
  int64_t offset(int64_t tile) const { return tile * tile_vectors_ * kStep * eights(); }

  void lay_out(int64_t tile, float* out) const {
    const int64_t step = 8 * Form::kTokens * vectors(tile);
    for (int64_t t = 0; t < vectors(tile) * Form::kTokens; t++) {
      float* to = out + 8 * t;
      int64_t i = 0;
      if (t < tokens(tile)) {
        const float* from = x_ + (first_token(tile) + t) * k_;
        for (; i + 8 <= k_; i += 8, to += step) std::memcpy(to, from + i, 8 * sizeof(float));
        if (i < k_) {
          std::fill_n(std::copy_n(from + i, k_ - i, to), i + 8 - k_, 0.0f);
          i += 8;
        }
        continue;
      }
      for (; i < k_; i += 8, to += step) std::fill_n(to, 8, 0.0f);
    }
  }

  const float* x_;
  int64_t k_, n_;
  int64_t tiles_ = 0;
  int tile_vectors_ = 0;
  const float* tiled_ = nullptr;
};

// Columns of a piece; pieces are of like size.
template <class Form>
int64_t piece_columns(const TiledActivations<Form>& x) {
  const int64_t most = kPieceFloats / (x.tile_vectors() * Form::kTokens);
  const int64_t pieces = std::max<int64_t>(1, (x.columns() + most - 1) / most);
  return (x.columns() + pieces * 8 - 1) / (pieces * 8) * 8;
}
// Tiles that a group of rows meets before it moves on.
template <class Form>
int64_t tiles_at_once(const TiledActivations<Form>& x) {
  const int64_t most = kTokensAtOnce / (x.tile_vectors() * Form::kTokens);
  return std::min(x.tiles(), std::max<int64_t>(1, most));
}

// Consecutive rows of weights, some columns of them, for consecutive tiles of activations.
struct GroupPiece {
  const uint8_t* data;  // first row, first column of the piece
  int64_t stride;       // bytes from row to row
  int64_t rows;
  int64_t column, columns;  // of the piece
  float* sums;  // tile_sums() for each four rows of each tile; unused if the piece is all
  float* y;     // f32 [rows, n], column distance ldy
  int64_t ldy;
};

template <class Form>
constexpr int64_t tile_sums() {
  return kFloatRows * 8 * Form::kTokens * Form::kMostVectors;
}

template <class Form, class Stored>
void multiply_piece(const TiledActivations<Form>& x, const GroupPiece& g, int64_t first_tile,
                    int64_t last_tile) {
  const bool first = g.column == 0, last = g.column + g.columns == x.columns();
  int64_t at = 0;  // in g.sums
  for (int64_t tile = first_tile; tile < last_tile; tile++)
    for (int64_t r = 0; r < g.rows; r += kFloatRows, at += tile_sums<Form>()) {
      TilePiece p;
      for (int i = 0; i < kFloatRows; i++)  // beyond the last row: that row again
        p.rows[i] = g.data + std::min(r + i, g.rows - 1) * g.stride;
      // The tiles after the first find the group in the L2 cache; there prefetches only take the
      // place of loads.
      p.ahead = tile == first_tile ? kFloatRows * g.stride : 0;
      p.columns = g.columns;
      p.x = x.at(tile, g.column);
      p.sums = first && last ? nullptr : g.sums + at;
      p.first = first;
      p.last = last;
      p.y = g.y + x.first_token(tile) * g.ldy + r;
      p.ldy = g.ldy;
      p.rows_used = static_cast<int>(std::min<int64_t>(kFloatRows, g.rows - r));
      p.tokens = x.tokens(tile);
      float_tile_of<Form, Stored>(x.vectors(tile), p);
    }
}

template <class Form, class Decoder>
class FloatProduct {
 public:
  FloatProduct(const Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool,
               Scratch& scratch)
      : w_(w), y_(y), pool_(pool), scratch_(scratch), x_(x, w.k, n, pool, scratch) {}

  void run() {
    const int64_t groups = (w_.m + kFloatGroup - 1) / kFloatGroup;
    const bool stream = x_.tiles() == 1;
    piece_ = stream ? w_.k : piece_columns(x_);
    tiles_at_once_ = tiles_at_once(x_);
    const int64_t room =
        piece_ == w_.k ? 0 : tiles_at_once_ * kFloatGroup / kFloatRows * tile_sums<Form>();
    float* sums = scratch_.get<float>(Scratch::kPanels, static_cast<size_t>(pool_.size() * room));
    const int64_t chunk = stream ? std::clamp<int64_t>(groups / (4 * pool_.size()), 1, 2) : 1;
    run_ieee(pool_, groups, chunk, [=, this](int64_t begin, int64_t end, int worker) {
      for (int64_t g = begin; g < end; g++) group(g * kFloatGroup, sums + worker * room);
    });
  }

 private:
  void group(int64_t first_row, float* sums) const {
    const int64_t stride = row_bytes(w_.type, w_.k);
    GroupPiece g;
    g.stride = stride;
    g.rows = std::min(kFloatGroup, w_.m - first_row);
    g.sums = sums;
    g.y = y_ + first_row;
    g.ldy = w_.m;
    for (int64_t tile = 0; tile < x_.tiles(); tile += tiles_at_once_) {
      g.column = 0;
      do {  // once even without columns: the results are then zero
        g.columns = std::min(piece_, w_.k - g.column);
        g.data = w_.data + first_row * stride + g.column * Decoder::kBytes;
        multiply_piece<Form, Decoder>(x_, g, tile, std::min(tile + tiles_at_once_, x_.tiles()));
        g.column += g.columns;
      } while (g.column < w_.k);
    }
  }

  const Matrix& w_;
  float* y_;
  ThreadPool& pool_;
  Scratch& scratch_;
  TiledActivations<Form> x_;
  int64_t piece_ = 0, tiles_at_once_ = 0;
};

template <class Decoder>
void float_product(const Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool,
                   Scratch& scratch) {
  if (n == 1) return FloatProduct<OneToken, Decoder>(w, x, n, y, pool, scratch).run();
  FloatProduct<ManyTokens, Decoder>(w, x, n, y, pool, scratch).run();
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
