// Blocks of quantised weights as integer vectors. One struct per type; the kernels know nothing
// else about a type. Per-target header: see matmul_simd.cc.
//
// A decoder holds 256 columns, 8 blocks of 32, of a vector of rows; lanes are rows. Vector j of
// block b holds four columns, a dword per row: columns 4j … 4j + 3 or, where a block's bytes begin
// between dwords, 4j - rotation … of every array of 4 · kArrayDwords columns, cyclically, so that
// nothing need be shifted. The activations are laid out to match.
//
// What every decoder has:
//   kType           its weight type
//   kTop            largest magnitude of the activations' integers
//   kWide           meets them in 16 bits: bytes are signed (else they are unsigned)
//   kLargest        largest byte, if not wide
//   kOffset         value = (byte - kOffset) · scale + minimum
//   kGroups         2: halves of a block have integer scales of their own, sub_scales(b)
//   kMinimum        kNone, kFloat: minimum(b); kPairs: that, times integers, minimums(b)
//   kArrayDwords    see above; with rotation(b)
//   load(p, stride) then for b < 8 in turn load_block(p, stride, b), all numbers known when the
//                   call is compiled, and then of this block bytes(b, j) for j < 8, scale(b)
#if defined(MEADOW_KERNELS_DECODERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_DECODERS_INL_H_
#undef MEADOW_KERNELS_DECODERS_INL_H_
#else
#define MEADOW_KERNELS_DECODERS_INL_H_
#endif

#include "base/dtype.h"
#include "kernels/rows-inl.h"
#include "kernels/weight_block.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

enum class Minimum { kNone, kFloat, kPairs };

template <int kBits>
HWY_INLINE V8 low_bits(V8 z) {
  return hn::And(z, hn::Set(d8, (1 << kBits) - 1));
}
// z >> shift in every byte (left if negative); bits outside `mask` are lost.
template <int kShift>
HWY_INLINE V8 shifted(V8 z, uint8_t mask) {
  const hn::ScalableTag<uint16_t> du16;
  auto w = hn::BitCast(du16, z);
  if constexpr (kShift > 0) w = hn::ShiftRight<kShift>(w);
  if constexpr (kShift < 0) w = hn::ShiftLeft<-kShift>(w);
  return hn::And(hn::BitCast(d8, w), hn::Set(d8, mask));
}
// … for a shift that is a constant only after inlining, from -7 to 7.
HWY_INLINE V8 shifted(V8 z, int shift, uint8_t mask) {
  switch (shift) {
#define MEADOW_CASE(n) \
  case n:              \
    return shifted<n>(z, mask);
    MEADOW_CASE(-4)
    MEADOW_CASE(-3)
    MEADOW_CASE(-2)
    MEADOW_CASE(-1)
    MEADOW_CASE(1)
    MEADOW_CASE(2)
    MEADOW_CASE(3)
    MEADOW_CASE(4)
    MEADOW_CASE(5)
    MEADOW_CASE(6)
    MEADOW_CASE(7)
#undef MEADOW_CASE
    default:
      return shifted<0>(z, mask);
  }
}

// Types whose blocks have 32 columns, the quants kQuants bytes after the block's start.
template <DType kDType, int kQuantsAt, int kQuantDwords>
struct SmallBlocks {
  static constexpr DType kType = kDType;
  static constexpr int kBytes = info(kDType).block_bytes, kArrayDwords = kQuantDwords;
  static constexpr int kTop = 127, kGroups = 1, kLargest = 15, kOffset = 0;
  static constexpr bool kWide = false;
  static constexpr Minimum kMinimum = Minimum::kNone;
  Rows<8 * kBytes> rows;

  static constexpr int start(int b) { return b * kBytes + kQuantsAt; }
  static constexpr int rotation(int b) { return start(b) % 4; }
  HWY_INLINE void load(const uint8_t*, int64_t) {}
  HWY_INLINE void load_block(const uint8_t* p, int64_t stride, int b) {
    rows.load(p, stride, [b](int at) HWY_ATTR { return at / kBytes == b; });
  }
  HWY_INLINE V8 dword(int b, int j) const { return rows.dword(start(b), kQuantDwords, j); }
  HWY_INLINE V8 bytes(int b, int j) const {  // nibbles: columns 0 to 15 low, 16 to 31 high
    return shifted(dword(b, j % 4), j < 4 ? 0 : 4, 15);
  }
  HWY_INLINE VF scale(int b) const { return rows.half(b * kBytes); }
  HWY_INLINE VF minimum(int b) const { return rows.half(b * kBytes + 2); }
};

struct Q4_0 : SmallBlocks<DType::kQ4_0, 2, 4> {
  static constexpr int kOffset = 8;
};

struct Q4_1 : SmallBlocks<DType::kQ4_1, 4, 4> {
  static constexpr Minimum kMinimum = Minimum::kFloat;
};

struct Q8_0 : SmallBlocks<DType::kQ8_0, 2, 8> {
  static constexpr int kTop = 32767;
  static constexpr bool kWide = true;
  HWY_INLINE V8 bytes(int b, int j) const { return dword(b, j); }
};

// Nibbles with a fifth bit each, which lie together in the four bytes before them.
template <DType kDType, int kQuantsAt>
struct FiveBits : SmallBlocks<kDType, kQuantsAt, 4> {
  using Base = SmallBlocks<kDType, kQuantsAt, 4>;
  static constexpr int kLargest = 31;

  HWY_INLINE V8 bytes(int b, int j) const { return hn::Or(Base::bytes(b, j), fifth_bits(b, j)); }

 private:
  // Place of the fifth bit of column c of vector j among the 32 as they come.
  static constexpr int place(int b, int j, int c) {
    const int column = (4 * j + c + 16 - Base::rotation(b)) % 16 + 16 * (j / 4);
    return (column + 8 * Base::rotation(b)) % 32;
  }
  HWY_INLINE V8 fifth_bits(int b, int j) const {
    const V8 all = this->rows.dword(Base::start(b) - 4, 1, 0);
#if HWY_TARGET == HWY_AVX3_DL
    // Each byte takes the eight bits, of 64, of which the fifth is the wanted one.
    const auto from = kFrom[b % 2][j].vector();
    return hn::And(V8{_mm512_multishift_epi64_epi8(from.raw, all.raw)}, hn::Set(d8, 16));
#else
    const V8 bits = kBits[b % 2][j].vector();
    const V8 copies = hn::TableLookupBytes(all, kFrom[b % 2][j].vector());
    return hn::And(hn::VecFromMask(d8, hn::Eq(hn::And(copies, bits), bits)), hn::Set(d8, 16));
#endif
  }

  // By the rotation of even and odd blocks.
  using Vectors = std::array<Repeated, 8>;
  template <class Byte>
  static constexpr std::array<Vectors, 2> patterns(Byte byte) {
    const auto of = [byte](int b, int j) {
      return Repeated([=](int i) { return byte(i, place(b, j, i % 4)); });
    };
    const auto all = [of](int b) {
      return Vectors{of(b, 0), of(b, 1), of(b, 2), of(b, 3),
                     of(b, 4), of(b, 5), of(b, 6), of(b, 7)};
    };
    return {all(0), all(1)};
  }
#if HWY_TARGET == HWY_AVX3_DL
  static constexpr auto kFrom =
      patterns([](int i, int at) { return (at + 32 * (i / 4 % 2) + 60) % 64; });
#else
  // The byte with the wanted bit, and that bit in it.
  static constexpr auto kFrom = patterns([](int i, int at) { return i / 4 * 4 + at / 8; });
  static constexpr auto kBits = patterns([](int, int at) { return 1 << at % 8; });
#endif
};

struct Q5_0 : FiveBits<DType::kQ5_0, 6> {
  static constexpr int kOffset = 16;
};

struct Q5_1 : FiveBits<DType::kQ5_1, 8> {
  static constexpr Minimum kMinimum = Minimum::kFloat;
};

// A table of the values of nibbles, `add` more than they are.
constexpr Repeated value_table(const int8_t* values, int add) {
  return Repeated([=](int i) { return values[i] + add; });
}

struct IQ4_NL : SmallBlocks<DType::kIQ4_NL, 2, 4> {
  // Two products of an unsigned byte up to 241 overflow 16 bits, where those are what there is.
  static constexpr bool kWide = HWY_TARGET != HWY_AVX3_DL;
  static constexpr int kOffset = kWide ? 0 : 128, kLargest = 255;
  HWY_INLINE V8 bytes(int b, int j) const {
    return hn::TableLookupBytes(kTable.vector(), SmallBlocks::bytes(b, j));
  }
  static constexpr Repeated kTable = value_table(kIq4NlValues, kOffset);
};

struct MXFP4 : SmallBlocks<DType::kMXFP4, 1, 4> {
  static constexpr int kOffset = 12, kLargest = 24;
  HWY_INLINE V8 bytes(int b, int j) const {
    return hn::TableLookupBytes(kTable.vector(), SmallBlocks::bytes(b, j));
  }
  static constexpr Repeated kTable = value_table(kMxfp4Values, kOffset);
  // Half of 2^(e - 127), the values being doubled; subnormal for e < 2.
  HWY_INLINE VF scale(int b) const {
    const int byte = b * kBytes;
    const V32 dwords = hn::BitCast(d32, rows.dword(byte / 4 * 4, 1, 0));
    const V32 e = hn::And(shifted_dwords(dwords, byte % 4), hn::Set(d32, 255));
    const V32 normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(d32, 1)));
    const V32 small = hn::ShiftLeft<21>(hn::Add(e, hn::Set(d32, 1)));
    return hn::BitCast(df, hn::IfThenElse(hn::Lt(e, hn::Set(d32, 2)), small, normal));
  }

 private:
  static HWY_INLINE V32 shifted_dwords(V32 v, int bytes) {
    return bytes == 0   ? v
           : bytes == 1 ? hn::ShiftRight<8>(v)
           : bytes == 2 ? hn::ShiftRight<16>(v)
                        : hn::ShiftRight<24>(v);
  }
};

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
