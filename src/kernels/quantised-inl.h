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

#include "kernels/float_environment.h"
#include "kernels/matmul.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int kStreamTokens = HWY_MAX_BYTES == 64 ? 6 : 4;  // of a tile over streamed weights
constexpr int kStreamMost = HWY_MAX_BYTES == 64 ? 8 : 4;    // above, unpacking panels pays
constexpr int kPanelTokens = 6;                             // tokens of a tile over a panel
constexpr int kPanelVectors = 2;                            // vectors of rows in a panel
// Bytes between what is read and what is fetched meanwhile, where groups of rows are small.
constexpr int64_t kLeastAhead = 12 * 1024;
// Few tokens: one panel that stays in the L1 cache beside the activations that meet it. More:
// several, in the L2 cache, share a tile of activations in the L1.
constexpr int kFewTokens = 64;
constexpr int kFewPanelBytes = 24 * 1024;
constexpr int kPanelsAtOnce = 4;
constexpr int kPanelBlocks = 16;

// One product. Rows are taken in groups of whole vectors; the last group, if it is not whole, is
// copied and padded with zero rows, and its results go through a buffer.
template <class Decoder>
class QuantisedProduct {
 public:
  QuantisedProduct(const Matrix& w, const float* x, int64_t n, float* y, ThreadPool& pool,
                   Scratch& scratch)
      : w_(w), x_(x), n_(n), y_(y), pool_(pool), scratch_(scratch) {}

  void run() {
    const bool stream = n_ <= kStreamMost, few = n_ <= kFewTokens;
    panel_blocks_ = few ? kFewBlocks : std::max(kFewBlocks, kPanelBlocks);
    panels_at_once_ = few ? 1 : kPanelsAtOnce;
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
  using Weights = Stream<Decoder, kIntoL1>;
  using Ends = RowEnds<Weights>;
  using WeightPanel = Panel<Decoder, kPanelVectors>;
  static constexpr ActivationLayout kLayout = layout_for<Decoder>();
  // Whole decoders.
  static constexpr int kFewBlocks =
      kDecoderBlocks * static_cast<int>(std::clamp<int64_t>(
                           kFewPanelBytes / WeightPanel::kStep / kDecoderBlocks, 1, 4));
  int64_t panel_bytes() const { return panel_blocks_ * WeightPanel::kStep; }

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
    return (tile * tile_tokens_ * blocks() + block * tokens(tile)) * kLayout.dwords();
  }
  // Items that a thread takes at a time: every thread gets some, at most `most`.
  int64_t share(int64_t items, int64_t most) const {
    return std::clamp<int64_t>(items / (2 * pool_.size()), 1, most);
  }

  void quantise() {
    int32_t* out = scratch_.get<int32_t>(Scratch::kActivations,
                                         static_cast<size_t>(n_ * blocks() * kLayout.dwords()));
    activations_ = out;
    run_ieee(pool_, tiles(), 1, [this, out](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++)
        quantise_tile<Decoder>(x_ + i * tile_tokens_ * w_.k, w_.k, tokens(i),
                               out + activation_offset(i, 0));
    });
  }

  // The rows and what a decoder may read beyond them.
  int64_t tail_bytes() const { return group_rows_ * stride() + 32; }
  void copy_tail() {
    if (tail_rows() == 0) return;
    const auto used = static_cast<size_t>(tail_rows() * stride());
    const auto all = static_cast<size_t>(tail_bytes());
    uint8_t* copy = scratch_.get<uint8_t>(Scratch::kTail, all);
    if (used > 0) std::memcpy(copy, w_.data + (w_.m - tail_rows()) * stride(), used);
    std::fill(copy + used, copy + all, uint8_t{0});
    tail_ = copy;
    tail_y_ = scratch_.get<float>(Scratch::kTailResults, static_cast<size_t>(n_ * group_rows_));
  }

  // A group's rows of weights and its results.
  struct Group {
    const uint8_t* rows;
    const uint8_t* end;  // of the memory that holds them
    float* y;
    int64_t ldy;
  };
  Group group(int64_t g) const {
    const int64_t first = g * group_rows_;
    if (first + group_rows_ > w_.m) return {tail_, tail_ + tail_bytes(), tail_y_, group_rows_};
    return {w_.data + first * stride(), w_.data + w_.m * stride(), y_ + first, w_.m};
  }

  void run_stream() {
    // The first rows of a chunk come unprefetched, so chunks are not small where they can be large.
    const int64_t chunk = share(groups(), 128 / kLanes);
    run_ieee(pool_, groups(), chunk, [this](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++) stream_group(group(i));
    });
  }

  void stream_group(const Group& g) {
    const int64_t rest = blocks() % kDecoderBlocks, whole = blocks() - rest;
    const int64_t whole_bytes = row_bytes(w_.type, 32 * whole);
    const int64_t group_bytes = kLanes * stride();
    // The rows after these, in the order of addresses, are wanted next.
    const uint8_t* ahead = g.rows + std::max<int64_t>(1, kLeastAhead / group_bytes) * group_bytes;
    run_tiles<false>(g, Weights(g.rows, stride(), ahead), 0, whole);
    if constexpr (Ends::kNeeded) {
      if (rest == 0) return;
      const uint8_t* rows = g.rows + whole_bytes;
      ahead += kLanes * whole_bytes;
      if (Ends::in_place(rows, stride(), rest, g.end))
        run_tiles<true>(g, Weights(rows, stride(), ahead), whole, rest);
      else
        run_tiles<true>(g, Ends(rows, stride(), rest).stream(ahead), whole, rest);
    }
  }

  template <bool kEnds>
  void run_tiles(const Group& g, const Weights& weights, int64_t first, int64_t count) {
    for (int64_t t = 0; t < tiles(); t++)
      tile_of<kStreamTokens, kEnds>(tokens(t), weights, count,
                                    activations_ + activation_offset(t, first), first == 0,
                                    g.y + t * tile_tokens_ * g.ldy, g.ldy);
  }

  void run_panels() {
    const int64_t bytes = panels_at_once_ * panel_bytes();
    uint8_t* panels =
        scratch_.get<uint8_t>(Scratch::kPanels, static_cast<size_t>(pool_.size() * bytes));
    run_ieee(pool_, groups(), share(groups(), kPanelsAtOnce),
             [this, panels, bytes](int64_t begin, int64_t end, int worker) {
               for (int64_t g = begin; g < end; g += panels_at_once_)
                 panel_groups(g, std::min(end, g + panels_at_once_), panels + worker * bytes);
             });
  }

  // Groups [begin, end), at most panels_at_once_.
  void panel_groups(int64_t begin, int64_t end, uint8_t* panels) {
    int64_t b = 0;
    do {  // once even without blocks: the results are then zero
      const int64_t count = std::min<int64_t>(panel_blocks_, blocks() - b);
      pack_groups(begin, end, b, count, panels);
      for (int64_t i = 0; i < tiles(); i++)
        for (int64_t g = begin; g < end; g++) {
          const Group to = group(g);
          tile_of<kPanelTokens, false>(tokens(i), WeightPanel(panels + (g - begin) * panel_bytes()),
                                       count, activations_ + activation_offset(i, b), b == 0,
                                       to.y + i * tile_tokens_ * to.ldy, to.ldy);
        }
      b += count;
    } while (b < blocks());
  }

  // Unpacks blocks [b, b + count) of groups [begin, end) and prefetches the groups after them, in
  // the order of addresses.
  void pack_groups(int64_t begin, int64_t end, int64_t b, int64_t count, uint8_t* panels) {
    const int64_t before = row_bytes(w_.type, 32 * b), step = row_bytes(w_.type, 32 * count);
    const uint8_t* ahead =
        w_.data + end * group_rows_ * stride() + (end - begin) * group_rows_ * before;
    for (int64_t g = begin; g < end; g++)
      for (int v = 0; v < kPanelVectors; v++) {
        const Group from = group(g);
        WeightPanel::pack(from.rows + before + v * kLanes * stride(), stride(), count, v, from.end,
                          ahead, panels + (g - begin) * panel_bytes());
        ahead += kLanes * step;
      }
  }

  const Matrix& w_;
  const float* x_;
  int64_t n_;
  float* y_;
  ThreadPool& pool_;
  Scratch& scratch_;
  int64_t panel_blocks_ = 0, panels_at_once_ = 0;
  int tile_tokens_ = 0;
  int64_t group_rows_ = 0;
  const int32_t* activations_ = nullptr;
  const uint8_t* tail_ = nullptr;
  float* tail_y_ = nullptr;
};

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
