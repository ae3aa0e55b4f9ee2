// Quantised weights times quantised activations. Per-target header.
//
// A tile is rows x T tokens with the rows in lanes, so every output is one lane's chain over
// ascending blocks, whatever the shape. Few tokens decode the weights in registers as they stream
// past, tile by tile; many tokens first unpack panels of rows, some blocks at a time, that stay in
// the cache.
#if defined(MEADOW_KERNELS_QUANTISED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_QUANTISED_INL_H_
#undef MEADOW_KERNELS_QUANTISED_INL_H_
#else
#define MEADOW_KERNELS_QUANTISED_INL_H_
#endif

#include <algorithm>

#include "kernels/activations-inl.h"
#include "kernels/dots-inl.h"
#include "kernels/float_environment.h"
#include "kernels/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int kStreamTokens = 4;  // tokens of a tile over streamed weights
constexpr int kStreamMost = 12;   // above, unpacking panels pays
constexpr int kPanelTokens = 6;   // tokens of a tile over a panel
constexpr int kPanelVectors = 2;  // vectors of rows in a panel
constexpr int kPanelBlocks =
    32;  // blocks of a row in a panel: a tile of activations fits the L1 cache
constexpr int kPanelsAtOnce = 4;  // panels that share it

// A source of weights for tile(): kVectors vectors of rows, block after block.
//   next()   moves to the next block; then bytes(v, j) or, if wide, words(v, j); scale(v),
//   minimum(v)

// Straight from the file's layout.
template <class Decoder>
class Stream {
 public:
  static constexpr bool kWide = Decoder::kWide, kMinimum = Decoder::kMinimum;
  static constexpr int kVectors = 1;

  Stream(const uint8_t* rows, int64_t stride)
      : at_(rows - kBytes), ahead_(rows + kLanes * stride), stride_(stride) {}

  HWY_INLINE void next() {
    // The rows after these, in the order of addresses: they are wanted next.
    for (int i = 0; i < kLanes * kBytes; i += 64) __builtin_prefetch(ahead_ + i, 0, 2);
    ahead_ += kLanes * kBytes;
    at_ += kBytes;
    block_.load(at_, stride_);
  }
  HWY_INLINE V8 bytes(int, int j) const { return block_.bytes(j); }
  HWY_INLINE V16 words(int, int j) const {
    const V8 b = block_.bytes(j / 2);
    return j % 2 == 0 ? even_bytes(b) : odd_bytes(b);
  }
  template <bool kAsWords>
  HWY_INLINE V8 unpacked(int j) const {
    if constexpr (kAsWords)
      return hn::BitCast(d8, words(0, j));
    else
      return bytes(0, j);
  }
  HWY_INLINE VF scale(int) const { return block_.scale(); }
  HWY_INLINE VF minimum(int) const { return block_.minimum(); }

 private:
  static constexpr int64_t kBytes = info(Decoder::kType).block_bytes;
  Decoder block_;
  const uint8_t* at_;
  const uint8_t* ahead_;
  int64_t stride_;
};

// Unpacked: per block the integer vectors, then scales, then minimums, of kPanelVectors vectors
// each.
template <bool kWideWeights, bool kHasMinimum>
class Panel {
 public:
  static constexpr bool kWide = kWideWeights, kMinimum = kHasMinimum;
  static constexpr int kVectors = kPanelVectors;
  static constexpr int64_t kStep = (x_dwords(kWide) + 1 + kMinimum) * kVectors * HWY_MAX_BYTES;

  explicit Panel(const uint8_t* data) : at_(data - kStep) {}

  HWY_INLINE void next() { at_ += kStep; }
  HWY_INLINE V8 bytes(int v, int j) const { return hn::Load(d8, at(v, j)); }
  HWY_INLINE V16 words(int v, int j) const { return hn::BitCast(d16, bytes(v, j)); }
  HWY_INLINE VF scale(int v) const { return hn::BitCast(df, bytes(v, x_dwords(kWide))); }
  HWY_INLINE VF minimum(int v) const { return hn::BitCast(df, bytes(v, x_dwords(kWide) + 1)); }

  // Unpacks vector v of rows.
  template <class Decoder>
  static void pack(const uint8_t* rows, int64_t stride, int64_t blocks, int v, uint8_t* out) {
    constexpr int kVectorStep = kVectors * HWY_MAX_BYTES;
    Stream<Decoder> stream(rows, stride);
    out += v * HWY_MAX_BYTES;
    for (int64_t b = 0; b < blocks; b++, out += kStep) {
      stream.next();
      MEADOW_UNROLL for (int j = 0; j < x_dwords(kWide); j++)
          hn::Store(stream.template unpacked<kWide>(j), d8, out + j * kVectorStep);
      hn::Store(hn::BitCast(d8, stream.scale(0)), d8, out + x_dwords(kWide) * kVectorStep);
      if constexpr (kMinimum)
        hn::Store(hn::BitCast(d8, stream.minimum(0)), d8,
                  out + (x_dwords(kWide) + 1) * kVectorStep);
    }
  }

 private:
  HWY_INLINE const uint8_t* at(int v, int j) const {
    return at_ + (j * kVectors + v) * HWY_MAX_BYTES;
  }
  const uint8_t* at_;
};

HWY_INLINE VF broadcast_float(const int32_t* p) { return hn::BitCast(df, hn::Set(d32, *p)); }

// y[t · ldy + row] for T tokens and all rows of the source; unless `first`, continues the chains
// that y holds.    a: a tile of activations
template <int T, class Source>
HWY_NOINLINE void tile(Source source, int64_t blocks, const int32_t* a, bool first, float* y,
                       int64_t ldy) {
  constexpr int kVectors = Source::kVectors, kX = x_dwords(Source::kWide);
  using Dot = std::conditional_t<Source::kWide, WideDot, NarrowDot>;
  VF acc[kVectors][T];
  for (int v = 0; v < kVectors; v++)
    for (int t = 0; t < T; t++)
      acc[v][t] = first ? hn::Zero(df) : hn::LoadU(df, y + t * ldy + v * kLanes);
  for (int64_t b = 0; b < blocks; b++, a += (kX + 3) * T) {
    source.next();
    Dot dot[kVectors][T];
    MEADOW_UNROLL for (int v = 0; v < kVectors; v++) {
      MEADOW_UNROLL for (int t = 0; t < T; t++) dot[v][t].start();
    }
    MEADOW_UNROLL for (int j = 0; j < kX; j++) {
      MEADOW_UNROLL for (int v = 0; v < kVectors; v++) {
        if constexpr (Source::kWide) {
          const V16 w = source.words(v, j);
          MEADOW_UNROLL for (int t = 0; t < T; t++) dot[v][t].add(w, hn::Set(d32, a[j * T + t]));
        } else {
          const V8 w = source.bytes(v, j);
          MEADOW_UNROLL for (int t = 0; t < T; t++) dot[v][t].add(w, hn::Set(d32, a[j * T + t]));
        }
      }
    }
    MEADOW_UNROLL for (int v = 0; v < kVectors; v++) {
      const VF scale = source.scale(v);
      MEADOW_UNROLL for (int t = 0; t < T; t++) {
        const V32 sum = hn::Add(dot[v][t].total(), hn::Set(d32, a[kX * T + t]));
        const VF d = broadcast_float(a + (kX + 1) * T + t);
        acc[v][t] = hn::MulAdd(hn::ConvertTo(df, sum), hn::Mul(scale, d), acc[v][t]);
        if constexpr (Source::kMinimum)
          acc[v][t] =
              hn::MulAdd(source.minimum(v), broadcast_float(a + (kX + 2) * T + t), acc[v][t]);
      }
    }
  }
  for (int v = 0; v < kVectors; v++)
    for (int t = 0; t < T; t++) hn::StoreU(acc[v][t], df, y + t * ldy + v * kLanes);
}

// tile() for a number of tokens known at run time, at most T.
template <int T, class Source>
void tile_of(int tokens, const Source& source, int64_t blocks, const int32_t* a, bool first,
             float* y, int64_t ldy) {
  if constexpr (T > 1) {
    if (tokens < T) return tile_of<T - 1>(tokens, source, blocks, a, first, y, ldy);
  }
  tile<T>(source, blocks, a, first, y, ldy);
}

// One product. Rows are taken in groups of whole vectors; the last group, if it is not whole, is
// copied and padded with zero rows, and its results go through a buffer.
template <class Decoder>
class QuantisedProduct {
 public:
  QuantisedProduct(const Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool,
                   Scratch& scratch)
      : w_(w), x_(x), n_(n), y_(y), pool_(pool), scratch_(scratch) {}

  void run() {
    const bool stream = n_ <= kStreamMost;
    const int most = stream ? kStreamTokens : kPanelTokens;
    const int64_t tiles_needed = (n_ + most - 1) / most;
    tile_tokens_ = static_cast<int>((n_ + tiles_needed - 1) / tiles_needed);  // tiles of like size
    group_rows_ = stream ? kLanes : kLanes * kPanelVectors;
    quantise();
    copy_tail();
    stream ? run_stream() : run_panels();
    for (int64_t t = 0; t < n_ && tail_rows() > 0; t++)
      std::copy_n(tail_y_ + t * group_rows_, tail_rows(), y_ + (t + 1) * w_.m - tail_rows());
  }

 private:
  using WeightPanel = Panel<Decoder::kWide, Decoder::kMinimum>;
  static constexpr int64_t kPanelBytes = kPanelBlocks * WeightPanel::kStep;

  int64_t blocks() const { return w_.k / 32; }
  int64_t stride() const { return row_bytes(w_.type, w_.k); }
  int64_t groups() const { return (w_.m + group_rows_ - 1) / group_rows_; }
  int64_t tail_rows() const { return w_.m % group_rows_; }
  int64_t tiles() const { return (n_ + tile_tokens_ - 1) / tile_tokens_; }
  int tokens(int64_t tile) const {
    return static_cast<int>(std::min<int64_t>(tile_tokens_, n_ - tile * tile_tokens_));
  }
  // Where a block of a tile begins, in dwords.
  int64_t activation_offset(int64_t tile, int64_t block) const {
    return (tile * tile_tokens_ * blocks() + block * tokens(tile)) * block_dwords(Decoder::kWide);
  }
  // Items that a thread takes at a time: every thread gets some, at most `most`.
  int64_t share(int64_t items, int64_t most) const {
    return std::clamp<int64_t>(items / (2 * pool_.size()), 1, most);
  }

  void quantise() {
    int32_t* out = scratch_.get<int32_t>(
        Scratch::kActivations, static_cast<size_t>(n_ * blocks() * block_dwords(Decoder::kWide)));
    activations_ = out;
    run_ieee(pool_, tiles(), 1, [this, out](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++)
        quantise_tile<Decoder::kWide>(x_ + i * tile_tokens_ * w_.k, w_.k, tokens(i),
                                      Decoder::kOffset, out + activation_offset(i, 0));
    });
  }

  void copy_tail() {
    if (tail_rows() == 0) return;
    const auto used = static_cast<size_t>(tail_rows() * stride());
    const auto all = static_cast<size_t>(group_rows_ * stride());
    uint8_t* copy = scratch_.get<uint8_t>(Scratch::kTail, all);
    if (used > 0) std::memcpy(copy, w_.data + (w_.m - tail_rows()) * stride(), used);
    std::fill(copy + used, copy + all, uint8_t{0});
    tail_ = copy;
    tail_y_ = scratch_.get<float>(Scratch::kTailResults, static_cast<size_t>(n_ * group_rows_));
  }

  // A group's rows of weights and its results.
  struct Group {
    const uint8_t* rows;
    float* y;
    int64_t ldy;
  };
  Group group(int64_t g) const {
    const int64_t first = g * group_rows_;
    if (first + group_rows_ > w_.m) return {tail_, tail_y_, group_rows_};
    return {w_.data + first * stride(), y_ + first, w_.m};
  }

  void run_stream() {
    // The first rows of a chunk come unprefetched, so chunks are not small where they can be large.
    const int64_t chunk = share(groups(), 128 / kLanes);
    run_ieee(pool_, groups(), chunk, [this](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++) {
        const Group g = group(i);
        for (int64_t t = 0; t < tiles(); t++)
          tile_of<kStreamTokens>(tokens(t), Stream<Decoder>(g.rows, stride()), blocks(),
                                 activations_ + activation_offset(t, 0), true,
                                 g.y + t * tile_tokens_ * g.ldy, g.ldy);
      }
    });
  }

  void run_panels() {
    constexpr int64_t kBytes = kPanelsAtOnce * kPanelBytes;
    uint8_t* panels =
        scratch_.get<uint8_t>(Scratch::kPanels, static_cast<size_t>(pool_.size() * kBytes));
    run_ieee(pool_, groups(), share(groups(), kPanelsAtOnce),
             [this, panels](int64_t begin, int64_t end, int worker) {
               panel_groups(begin, end, panels + worker * kBytes);
             });
  }

  // Groups [begin, end), at most kPanelsAtOnce.
  void panel_groups(int64_t begin, int64_t end, uint8_t* panels) {
    int64_t b = 0;
    do {  // once even without blocks: the results are then zero
      const int64_t count = std::min<int64_t>(kPanelBlocks, blocks() - b);
      for (int64_t g = begin; g < end; g++) {
        const uint8_t* rows = group(g).rows + b * info(w_.type).block_bytes;
        for (int v = 0; v < kPanelVectors; v++)
          WeightPanel::template pack<Decoder>(rows + v * kLanes * stride(), stride(), count, v,
                                              panels + (g - begin) * kPanelBytes);
      }
      for (int64_t i = 0; i < tiles(); i++)
        for (int64_t g = begin; g < end; g++) {
          const Group to = group(g);
          tile_of<kPanelTokens>(tokens(i), WeightPanel(panels + (g - begin) * kPanelBytes), count,
                                activations_ + activation_offset(i, b), b == 0,
                                to.y + i * tile_tokens_ * to.ldy, to.ldy);
        }
      b += count;
    } while (b < blocks());
  }

  const Matrix& w_;
  const float* x_;
  int64_t n_;
  float* y_;
  ThreadPool& pool_;
  Scratch& scratch_;
  int tile_tokens_ = 0;
  int64_t group_rows_ = 0;
  const int32_t* activations_ = nullptr;
  const uint8_t* tail_ = nullptr;
  float* tail_y_ = nullptr;
};

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
