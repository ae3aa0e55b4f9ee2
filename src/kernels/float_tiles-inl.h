// Tiles of float products: four rows of weights times a few vectors of tokens, by the float rule.
// Per-target header.
//
// A vector holds the 8 chains (k mod 8) of one token; with 512 bits those of two tokens, side by
// side. Weights come as they lie, eight columns of a row at a time, once per token of the vector.
// Activations are laid out before in the order in which tiles read them.
#if defined(MEADOW_KERNELS_FLOAT_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_FLOAT_TILES_INL_H_
#undef MEADOW_KERNELS_FLOAT_TILES_INL_H_
#else
#define MEADOW_KERNELS_FLOAT_TILES_INL_H_
#endif

#include <algorithm>

#include "kernels/chains-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int kFloatRows = 4;

// The chains of one token.
struct OneToken {
  static constexpr int kTokens = 1;
  static constexpr int kMostVectors = 3;  // of a tile: 12 sums and their operands fit 16 registers
  using Sums = Chains;

  static HWY_INLINE Sums zero() { return zero_chains(); }
  static HWY_INLINE Sums load(const float* p) { return load_chains(p); }
  static HWY_INLINE void store(const Sums& s, float* p) { store_chains(s, p); }
  template <class Decoder>
  static HWY_INLINE Sums weights(const uint8_t* p) {
    return Decoder::load(p);
  }
  static HWY_INLINE void add(const Sums& w, const Sums& x, Sums& acc) { add_product(w, x, acc); }
  // Merged sums of four rows of the vector's only token.
  static HWY_INLINE hn::Vec<D4> merged(const Sums s[kFloatRows], int) {
    return merge_four(s[0], s[1], s[2], s[3]);
  }
};

#if HWY_MAX_BYTES == 64
// The chains of two tokens.
struct TwoTokens {
  static constexpr int kTokens = 2;
  // 20 sums and their operands fit 32 registers; with 24 some operands come from memory each time.
  static constexpr int kMostVectors = 5;
  using D = hn::ScalableTag<float>;
  using Sums = hn::Vec<D>;

  static HWY_INLINE Sums zero() { return hn::Zero(D()); }
  static HWY_INLINE Sums load(const float* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(const Sums& s, float* p) { hn::StoreU(s, D(), p); }
  template <class Decoder>
  static HWY_INLINE Sums weights(const uint8_t* p) {
    return Decoder::load_twice(p);
  }
  static HWY_INLINE void add(Sums w, Sums x, Sums& acc) { acc = hn::MulAdd(w, x, acc); }
  static HWY_INLINE hn::Vec<D4> merged(const Sums s[kFloatRows], int token) {
    Chains c[kFloatRows];
    MEADOW_UNROLL for (int r = 0; r < kFloatRows; r++) c[r].v[0] =
        token == 0 ? hn::LowerHalf(d_chain, s[r]) : hn::UpperHalf(d_chain, s[r]);
    return merge_four(c[0], c[1], c[2], c[3]);
  }
};
using ManyTokens = TwoTokens;
#else
using ManyTokens = OneToken;
#endif

// A piece of the summed index for four rows and the tokens of one tile.
struct TilePiece {
  const uint8_t* rows[kFloatRows];  // stored values from the first column of the piece on
  int64_t ahead;                    // bytes from a row to the one to be fetched meanwhile; 0: none
  int64_t columns;                  // a multiple of 8 unless the piece ends the rows
  const float* x;                   // f32 [8 · tokens of a vector, vectors, columns / 8]
  float* sums;                      // kept between pieces: f32 [8 · tokens of a vector, vectors, 4]
  bool first, last;                 // piece of the rows
  float* y;                         // f32 [4, tokens], column distance ldy; written by the last
  int64_t ldy;
  int rows_used, tokens;  // fewer than the tile has at the edges of y
};

template <class Form, int V>
void write_tile(const TilePiece& p, const typename Form::Sums (&acc)[V][kFloatRows]) {
  for (int v = 0; v < V; v++)
    for (int i = 0; i < Form::kTokens; i++) {
      const int t = v * Form::kTokens + i;
      if (t >= p.tokens) return;
      const auto sums = Form::merged(acc[v], i);
      if (p.rows_used == kFloatRows) {
        hn::StoreU(sums, d4, p.y + t * p.ldy);
      } else {
        float row[kFloatRows];
        hn::StoreU(sums, d4, row);
        std::copy_n(row, p.rows_used, p.y + t * p.ldy);
      }
    }
}

template <class Form, class Decoder, int V>
HWY_NOINLINE void float_tile(const TilePiece& p) {
  using Sums = typename Form::Sums;
  constexpr int kStep = 8 * Form::kTokens;  // floats of one vector
  constexpr int64_t kLine = 64 / Decoder::kBytes;
  Sums acc[V][kFloatRows];
  MEADOW_UNROLL for (int v = 0; v < V; v++) {
    MEADOW_UNROLL for (int r = 0; r < kFloatRows; r++) {
      if (p.first)
        acc[v][r] = Form::zero();
      else
        acc[v][r] = Form::load(p.sums + (v * kFloatRows + r) * kStep);
    }
  }
  const float* x = p.x;
  const auto add_eight = [&acc, &x](const uint8_t* const(&w)[kFloatRows], int64_t at) HWY_ATTR {
    Sums a[V];
    MEADOW_UNROLL for (int v = 0; v < V; v++) a[v] = Form::load(x + v * kStep);
    x += V * kStep;
    MEADOW_UNROLL for (int r = 0; r < kFloatRows; r++) {
      const Sums weights = Form::template weights<Decoder>(w[r] + at);
      MEADOW_UNROLL for (int v = 0; v < V; v++) { Form::add(weights, a[v], acc[v][r]); }
    }
  };
  const uint8_t* const rows[kFloatRows] = {p.rows[0], p.rows[1], p.rows[2], p.rows[3]};
  int64_t i = 0;
  for (; i + kLine <= p.columns; i += kLine) {
    if (p.ahead != 0) {
      MEADOW_UNROLL for (int r = 0; r < kFloatRows; r++)
          __builtin_prefetch(rows[r] + i * Decoder::kBytes + p.ahead, 0, 3);
    }
    MEADOW_UNROLL for (int j = 0; j < kLine; j += 8) add_eight(rows, (i + j) * Decoder::kBytes);
  }
  for (; i + 8 <= p.columns; i += 8) add_eight(rows, i * Decoder::kBytes);
  if (i < p.columns) {
    uint8_t padded[kFloatRows][8 * 4] = {};
    for (int r = 0; r < kFloatRows; r++)
      std::memcpy(padded[r], rows[r] + i * Decoder::kBytes,
                  static_cast<size_t>((p.columns - i) * Decoder::kBytes));
    add_eight({padded[0], padded[1], padded[2], padded[3]}, 0);
  }
  if (p.last) return write_tile<Form, V>(p, acc);
  MEADOW_UNROLL for (int v = 0; v < V; v++) {
    MEADOW_UNROLL for (int r = 0; r < kFloatRows; r++)
        Form::store(acc[v][r], p.sums + (v * kFloatRows + r) * kStep);
  }
}

// float_tile() for a number of vectors known at run time, at most V.
template <class Form, class Decoder, int V = Form::kMostVectors>
void float_tile_of(int vectors, const TilePiece& p) {
  if constexpr (V > 1) {
    if (vectors < V) return float_tile_of<Form, Decoder, V - 1>(vectors, p);
  }
  float_tile<Form, Decoder, V>(p);
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
