// Sources of quantised weights for tile(): streamed from the file's layout, or panels unpacked
// before. Per-target header.
//
// A source walks kVectors vectors of rows over their blocks, kBlocks at a time:
//   next()         moves on; then for b < kBlocks in turn
//   load_block(b), and of that block bytes(v, b, j) or, if wide, words(v, b, j);
//   scale(v, b), minimum(v, b), sub_scales(v, b, half), minimums(v, b) of vector v of rows
#if defined(MEADOW_KERNELS_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_WEIGHTS_INL_H_
#undef MEADOW_KERNELS_WEIGHTS_INL_H_
#else
#define MEADOW_KERNELS_WEIGHTS_INL_H_
#endif

#include <algorithm>

#include "kernels/activations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int kDecoderBlocks = 8;  // blocks that a decoder holds

// Into which cache a stream fetches what comes after it (__builtin_prefetch). Not for use alone:
// streamed weights are read once, soon, and the L1 cache's prefetches are twice as fast here as the
// L2's; panels and their activations need the L1 cache for themselves.
constexpr int kIntoL1 = 3, kIntoL2 = 2;

template <class DecoderOfType, int kPrefetch>
class Stream {
 public:
  using Decoder = DecoderOfType;
  static constexpr int kVectors = 1, kBlocks = kDecoderBlocks;
  // Bytes of a row that a decoder takes.
  static constexpr int64_t kStep = row_bytes(Decoder::kType, 32 * kBlocks);

  // kLanes rows, each of whole steps.    ahead: what to prefetch meanwhile, as many bytes; anything
  Stream(const uint8_t* rows, int64_t stride, const uint8_t* ahead)
      : next_(rows), ahead_(ahead), stride_(stride) {}

  HWY_INLINE void next() {
    at_ = next_;
    next_ += kStep;
    decoder_.load(at_, stride_);
  }
  HWY_INLINE void load_block(int b) {
    constexpr int64_t kAhead = kLanes * kStep / kBlocks;
    MEADOW_UNROLL for (int64_t i = 0; i < kAhead; i += 64)
        __builtin_prefetch(ahead_ + i, 0, kPrefetch);
    ahead_ += kAhead;
    decoder_.load_block(at_, stride_, b);
  }
  HWY_INLINE V8 bytes(int, int b, int j) const { return decoder_.bytes(b, j); }
  HWY_INLINE V16 words(int, int b, int j) const {
    const V8 z = decoder_.bytes(b, j / 2);
    return j % 2 == 0 ? even_bytes(z) : odd_bytes(z);
  }
  HWY_INLINE VF scale(int, int b) const { return decoder_.scale(b); }
  HWY_INLINE VF minimum(int, int b) const { return decoder_.minimum(b); }
  HWY_INLINE SubScale sub_scales(int, int b, int half) const {
    return decoder_.sub_scales(b, half);
  }
  HWY_INLINE V16 minimums(int, int b) const { return decoder_.minimums(b); }

 private:
  Decoder decoder_;
  const uint8_t* at_ = nullptr;
  const uint8_t* next_;
  const uint8_t* ahead_;
  int64_t stride_;
};

// The last blocks of rows, too few for a decoder. A decoder reads up to 32 bytes beyond the blocks
// asked of it, so where no memory follows it gets a copy.
template <class StreamOfType>
class RowEnds {
 public:
  using Decoder = typename StreamOfType::Decoder;
  static constexpr bool kNeeded = info(Decoder::kType).block_values == 32;

  // Whether kLanes rows may be read where they lie, in memory that ends at `end`.
  static bool in_place(const uint8_t* rows, int64_t stride, int64_t blocks, const uint8_t* end) {
    return end - rows >= (kLanes - 1) * stride + row_bytes(Decoder::kType, 32 * blocks) + 32;
  }

  RowEnds(const uint8_t* rows, int64_t stride, int64_t blocks) {
    for (int r = 0; r < kLanes; r++)
      std::memcpy(copy_ + r * kStep, rows + r * stride,
                  static_cast<size_t>(row_bytes(Decoder::kType, 32 * blocks)));
  }
  StreamOfType stream(const uint8_t* ahead) const { return {copy_, kStep, ahead}; }

 private:
  static constexpr int64_t kStep = StreamOfType::kStep;
  uint8_t copy_[kLanes * kStep] = {};
};

// Unpacked: per block the integer vectors, then scales and what else there is, of kVectors vectors
// each.
template <class DecoderOfType, int kVectorsOfRows>
class Panel {
 public:
  using Decoder = DecoderOfType;
  static constexpr int kVectors = kVectorsOfRows, kBlocks = 1;

 private:
  using Weights = Stream<Decoder, kIntoL2>;
  using Ends = RowEnds<Weights>;
  static constexpr int kIntegers = Decoder::kWide ? 16 : 8;
  static constexpr int kSubScales = kIntegers + 1;
  static constexpr int kMinimum = kSubScales + (Decoder::kGroups == 2 ? 2 : 0);
  static constexpr int kMinimums = kMinimum + (Decoder::kMinimum != Minimum::kNone);
  static constexpr int kEnd = kMinimums + (Decoder::kMinimum == Minimum::kPairs);

 public:
  static constexpr int64_t kStep = kEnd * kVectors * HWY_MAX_BYTES;  // bytes of a block

  explicit Panel(const uint8_t* data) : next_(data) {}

  HWY_INLINE void next() {
    at_ = next_;
    next_ += kStep;
  }
  HWY_INLINE void load_block(int) {}
  HWY_INLINE V8 bytes(int v, int, int j) const { return get(v, j); }
  HWY_INLINE V16 words(int v, int, int j) const { return hn::BitCast(d16, get(v, j)); }
  HWY_INLINE VF scale(int v, int) const { return hn::BitCast(df, get(v, kIntegers)); }
  HWY_INLINE VF minimum(int v, int) const { return hn::BitCast(df, get(v, kMinimum)); }
  HWY_INLINE SubScale sub_scales(int v, int, int half) const {
    return hn::BitCast(hn::DFromV<SubScale>(), get(v, kSubScales + half));
  }
  HWY_INLINE V16 minimums(int v, int) const { return hn::BitCast(d16, get(v, kMinimums)); }

  // Unpacks vector v of rows, `blocks` blocks of it, and prefetches as many bytes from `ahead`.
  //   end: of the memory that holds the rows
  static void pack(const uint8_t* rows, int64_t stride, int64_t blocks, int v, const uint8_t* end,
                   const uint8_t* ahead, uint8_t* out) {
    const int64_t rest = blocks % kDecoderBlocks, whole = blocks - rest;
    out += v * HWY_MAX_BYTES;
    pack<false>(Weights(rows, stride, ahead), whole, out);
    if constexpr (Ends::kNeeded) {
      if (rest == 0) return;
      rows += row_bytes(Decoder::kType, 32 * whole);
      ahead += kLanes * row_bytes(Decoder::kType, 32 * whole);
      out += whole * kStep;
      if (Ends::in_place(rows, stride, rest, end))
        pack<true>(Weights(rows, stride, ahead), rest, out);
      else
        pack<true>(Ends(rows, stride, rest).stream(ahead), rest, out);
    }
  }

 private:
  // kEnds: `blocks` need not fill the last decoder. (The test in the loop costs, so not always.)
  template <bool kEnds>
  static HWY_NOINLINE void pack(Weights stream, int64_t blocks, uint8_t* out) {
    for (int64_t done = 0; done < blocks; done += kDecoderBlocks) {
      stream.next();
      MEADOW_UNROLL for (int b = 0; b < kDecoderBlocks; b++) {
        if (kEnds && done + b >= blocks) break;
        stream.load_block(b);
        pack_block(stream, b, out);
        out += kStep;
      }
    }
  }
  static HWY_INLINE void pack_block(const Weights& stream, int b, uint8_t* out) {
    MEADOW_UNROLL for (int j = 0; j < kIntegers; j++) {
      if constexpr (Decoder::kWide)
        put(stream.words(0, b, j), j, out);
      else
        put(stream.bytes(0, b, j), j, out);
    }
    put(stream.scale(0, b), kIntegers, out);
    if constexpr (Decoder::kGroups == 2) {
      put(stream.sub_scales(0, b, 0), kSubScales, out);
      put(stream.sub_scales(0, b, 1), kSubScales + 1, out);
    }
    if constexpr (Decoder::kMinimum != Minimum::kNone) put(stream.minimum(0, b), kMinimum, out);
    if constexpr (Decoder::kMinimum == Minimum::kPairs) put(stream.minimums(0, b), kMinimums, out);
  }
  template <class V>
  static HWY_INLINE void put(V v, int field, uint8_t* out) {
    hn::Store(hn::BitCast(d8, v), d8, out + field * kVectors * HWY_MAX_BYTES);
  }
  HWY_INLINE V8 get(int v, int field) const {
    return hn::Load(d8, at_ + (field * kVectors + v) * HWY_MAX_BYTES);
  }
  const uint8_t* at_ = nullptr;
  const uint8_t* next_;
};

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
