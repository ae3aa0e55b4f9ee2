// Float weights times f32 activations by the float rule. Per-target header.
//
// The 8 chains (k mod 8) are lanes, so weights are used as they lie, without packing, whatever the
// number of tokens. A tile is 4 rows x T tokens.
#if defined(MEADOW_KERNELS_FLOAT_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_FLOAT_MATMUL_INL_H_
#undef MEADOW_KERNELS_FLOAT_MATMUL_INL_H_
#else
#define MEADOW_KERNELS_FLOAT_MATMUL_INL_H_
#endif

#include <algorithm>

#include "kernels/chains-inl.h"
#include "kernels/float_environment.h"
#include "kernels/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int kFloatRows = 4, kFloatTokens = 3;
constexpr int64_t kFloatGroup = 64;           // most rows that a thread takes at a time
constexpr int64_t kFloatGroupValues = 65536;  // f32 values of such a group stay in the L2 cache

// y[t · ldy + r] for 4 rows and T tokens.
//   rows: stored values [k] each    x: f32 [k, T]    tail: the last k % 8 of each token, padded to
//   8
template <class Decoder, int T>
HWY_NOINLINE void float_tile(const uint8_t* const rows[kFloatRows], const float* x, int64_t k,
                             const float* tail, float* y, int64_t ldy) {
  Chains acc[kFloatRows][T];
  for (auto& row : acc)
    for (Chains& c : row) c = zero_chains();
  const int64_t whole = k / 8 * 8;
  for (int64_t i = 0; i < whole; i += 8) {
    Chains a[T];
    MEADOW_UNROLL for (int t = 0; t < T; t++) a[t] = load_chains(x + t * k + i);
    MEADOW_UNROLL for (int r = 0; r < kFloatRows; r++) {
      const Chains w = Decoder::load(rows[r] + i * Decoder::kBytes);
      MEADOW_UNROLL for (int t = 0; t < T; t++) add_product(w, a[t], acc[r][t]);
    }
  }
  if (whole < k) {
    for (int r = 0; r < kFloatRows; r++) {
      uint8_t padded[8 * 4] = {};
      std::memcpy(padded, rows[r] + whole * Decoder::kBytes,
                  static_cast<size_t>((k - whole) * Decoder::kBytes));
      const Chains w = Decoder::load(padded);
      for (int t = 0; t < T; t++) add_product(w, load_chains(tail + 8 * t), acc[r][t]);
    }
  }
  for (int t = 0; t < T; t++)
    hn::StoreU(merge_four(acc[0][t], acc[1][t], acc[2][t], acc[3][t]), d4, y + t * ldy);
}

template <class Decoder, int T>
void float_tile_of(int tokens, const uint8_t* const rows[kFloatRows], const float* x, int64_t k,
                   const float* tail, float* y, int64_t ldy) {
  if constexpr (T > 1) {
    if (tokens < T) return float_tile_of<Decoder, T - 1>(tokens, rows, x, k, tail, y, ldy);
  }
  float_tile<Decoder, T>(rows, x, k, tail, y, ldy);
}

template <class Decoder>
void unpack_row(const uint8_t* row, int64_t k, float* out) {
  int64_t i = 0;
  for (; i + 8 <= k; i += 8) store_chains(Decoder::load(row + i * Decoder::kBytes), out + i);
  if (i < k) {
    uint8_t padded[8 * 4] = {};
    float values[8];
    std::memcpy(padded, row + i * Decoder::kBytes, static_cast<size_t>((k - i) * Decoder::kBytes));
    store_chains(Decoder::load(padded), values);
    std::copy_n(values, k - i, out + i);
  }
}

template <class Decoder>
class FloatProduct {
 public:
  FloatProduct(const Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool,
               Scratch& scratch)
      : w_(w), x_(x), n_(n), y_(y), pool_(pool), scratch_(scratch) {}

  void run() {
    pad_tails();
    group_rows_ =
        std::clamp<int64_t>(kFloatGroupValues / std::max<int64_t>(w_.k, 1) / 4 * 4, 4, kFloatGroup);
    const bool unpack = Decoder::kBytes < 4 && n_ > 4 * kFloatTokens;
    if (unpack)
      panels_ = scratch_.get<float>(Scratch::kPanels,
                                    static_cast<size_t>(pool_.size() * group_rows_ * w_.k));
    const int64_t groups = (w_.m + group_rows_ - 1) / group_rows_;
    run_ieee(pool_, groups, 1, [this, unpack](int64_t begin, int64_t end, int worker) {
      for (int64_t g = begin; g < end; g++) {
        const int64_t first = g * group_rows_;
        const int64_t last = std::min(first + group_rows_, w_.m);
        if (unpack)
          unpacked_rows(first, last, panels_ + worker * group_rows_ * w_.k);
        else
          tiles<Decoder>(w_.data + first * stride(), stride(), first, last);
      }
    });
  }

 private:
  int64_t stride() const { return row_bytes(w_.type, w_.k); }

  void pad_tails() {
    const int64_t rest = w_.k % 8;
    if (rest == 0) return;
    float* tails = scratch_.get<float>(Scratch::kTail, static_cast<size_t>(8 * n_));
    std::fill_n(tails, 8 * n_, 0.0f);
    for (int64_t t = 0; t < n_; t++) std::copy_n(x_ + (t + 1) * w_.k - rest, rest, tails + 8 * t);
    tails_ = tails;
  }

  void unpacked_rows(int64_t first, int64_t last, float* panel) {
    for (int64_t r = first; r < last; r++)
      unpack_row<Decoder>(w_.data + r * stride(), w_.k, panel + (r - first) * w_.k);
    tiles<DecodeF32>(reinterpret_cast<const uint8_t*>(panel), 4 * w_.k, first, last);
  }

  // Rows [first, last), the first of them at `data`.
  template <class Stored>
  void tiles(const uint8_t* data, int64_t stride, int64_t first, int64_t last) {
    for (int64_t t = 0; t < n_; t += kFloatTokens)
      for (int64_t r = first; r < last; r += kFloatRows) {
        const uint8_t* rows[kFloatRows];  // beyond the last row: that row again
        for (int64_t i = 0; i < kFloatRows; i++)
          rows[i] = data + (std::min(r + i, last - 1) - first) * stride;
        const int tokens = static_cast<int>(std::min<int64_t>(kFloatTokens, n_ - t));
        float* y = y_ + t * w_.m + r;
        const float* tail = tails_ == nullptr ? nullptr : tails_ + 8 * t;
        if (r + kFloatRows <= last) {
          float_tile_of<Stored, kFloatTokens>(tokens, rows, x_ + t * w_.k, w_.k, tail, y, w_.m);
          continue;
        }
        float padded[kFloatTokens * kFloatRows];
        float_tile_of<Stored, kFloatTokens>(tokens, rows, x_ + t * w_.k, w_.k, tail, padded,
                                            kFloatRows);
        for (int i = 0; i < tokens; i++)
          std::copy_n(padded + i * kFloatRows, last - r, y + i * w_.m);
      }
  }

  const Matrix& w_;
  const float* x_;
  int64_t n_;
  float* y_;
  ThreadPool& pool_;
  Scratch& scratch_;
  int64_t group_rows_ = 0;
  const float* tails_ = nullptr;
  float* panels_ = nullptr;
};

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
