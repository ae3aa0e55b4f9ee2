// Decoders (decoders-inl.h) of the types whose stored block has 256 columns. Per-target header.
#if defined(MEADOW_KERNELS_DECODERS_K_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_DECODERS_K_INL_H_
#undef MEADOW_KERNELS_DECODERS_K_INL_H_
#else
#define MEADOW_KERNELS_DECODERS_K_INL_H_
#endif

#include "kernels/decoders-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

// Byte i of every dword as a number.
HWY_INLINE VF byte_as_float(V8 z, int i) {
  const V32 v = hn::BitCast(d32, z), mask = hn::Set(d32, 255);
  switch (i) {
    case 0:
      return hn::ConvertTo(df, hn::And(v, mask));
    case 1:
      return hn::ConvertTo(df, hn::And(hn::ShiftRight<8>(v), mask));
    case 2:
      return hn::ConvertTo(df, hn::And(hn::ShiftRight<16>(v), mask));
    default:
      return hn::ConvertTo(df, hn::And(hn::ShiftRight<24>(v), mask));
  }
}

// Patterns that move a byte of every dword to the upper halves of its words: [low][high].
constexpr Repeated words_from(int low, int high) {
  return Repeated([=](int i) { return i / 4 * 4 + (i % 4 < 2 ? low : high); });
}
constexpr Repeated kWordsFrom[4][4] = {
    {words_from(0, 0), words_from(0, 1), words_from(0, 2), words_from(0, 3)},
    {words_from(1, 0), words_from(1, 1), words_from(1, 2), words_from(1, 3)},
    {words_from(2, 0), words_from(2, 1), words_from(2, 2), words_from(2, 3)},
    {words_from(3, 0), words_from(3, 1), words_from(3, 2), words_from(3, 3)}};

// Signed bytes `low` and `high` of every dword as its two 16-bit numbers.
HWY_INLINE V16 bytes_as_words(V8 z, int low, int high) {
  return hn::ShiftRight<8>(
      hn::BitCast(d16, hn::TableLookupBytes(z, kWordsFrom[low][high].vector())));
}

// Scales of the two halves of a block in the form that they are multiplied in: f32 where blocks'
// sums are 32-bit, else pairs of 16 bits, both the same.
#if HWY_TARGET == HWY_AVX3_DL
using SubScale = VF;
HWY_INLINE SubScale sub_scale(V8 signed_bytes, int i) {
  V32 v = hn::BitCast(d32, signed_bytes);
  if (i == 0) v = hn::ShiftLeft<24>(v);
  if (i == 1) v = hn::ShiftLeft<16>(v);
  if (i == 2) v = hn::ShiftLeft<8>(v);
  return hn::ConvertTo(df, hn::ShiftRight<24>(v));
}
#else
using SubScale = V16;
HWY_INLINE SubScale sub_scale(V8 signed_bytes, int i) { return bytes_as_words(signed_bytes, i, i); }
#endif

template <DType kDType>
struct LargeBlocks {
  static constexpr DType kType = kDType;
  static constexpr int kBytes = info(kDType).block_bytes, kArrayDwords = 8;
  static constexpr int kTop = 127, kGroups = 1, kOffset = 0;
  static constexpr bool kWide = false;
  static constexpr Minimum kMinimum = Minimum::kNone;
  Rows<kBytes> rows;

  static constexpr int rotation(int) { return 0; }
  // Reads what is first used by block b; -1: by load().    first_use(at): of the part from byte at
  template <class FirstUse>
  HWY_INLINE void load_parts(const uint8_t* p, int64_t stride, int b, FirstUse first_use) {
    rows.load(p, stride, [=](int at) HWY_ATTR { return first_use(at) == b; });
  }
  HWY_INLINE V8 dword(int at) const { return rows.dword(at, 1, 0); }
};

struct Q2_K : LargeBlocks<DType::kQ2_K> {
  static constexpr int kLargest = 3, kGroups = 2;
  static constexpr Minimum kMinimum = Minimum::kPairs;
  VF d, m;

  static constexpr int first_use(int at) { return at == 32 ? 0 : -1; }
  HWY_INLINE void load_block(const uint8_t* p, int64_t stride, int b) {
    load_parts(p, stride, b, first_use);
  }
  HWY_INLINE void load(const uint8_t* p, int64_t stride) {
    load_parts(p, stride, -1, first_use);
    d = rows.half(80);
    m = hn::Neg(rows.half(82));
  }
  HWY_INLINE V8 bytes(int b, int j) const {
    return shifted(dword(16 + 32 * (b / 4) + 4 * j), 2 * (b % 4), 3);
  }
  HWY_INLINE VF scale(int) const { return d; }
  HWY_INLINE VF minimum(int) const { return m; }
  HWY_INLINE SubScale sub_scales(int b, int half) const {
    return sub_scale(low_bits<4>(dword(b / 2 * 4)), b % 2 * 2 + half);
  }
  HWY_INLINE V16 minimums(int b) const {
    return bytes_as_words(shifted<4>(dword(b / 2 * 4), 15), b % 2 * 2, b % 2 * 2 + 1);
  }
};

struct Q3_K : LargeBlocks<DType::kQ3_K> {
  static constexpr int kLargest = 7, kOffset = 4, kGroups = 2;
  VF d;
  V8 scales[4];  // byte i of vector j: of columns 16 · (4j + i) …

  static constexpr int first_use(int at) { return at > 64 ? -1 : at / 64 * 4; }
  HWY_INLINE void load_block(const uint8_t* p, int64_t stride, int b) {
    load_parts(p, stride, b, first_use);
  }
  HWY_INLINE void load(const uint8_t* p, int64_t stride) {
    load_parts(p, stride, -1, first_use);
    d = rows.half(108);
    // Eight bytes of low nibbles (scales 0 to 7 low, 8 to 15 high), four of upper pairs of bits.
    const V8 low[2] = {dword(96), dword(100)}, high = dword(104);
    const V8 high_bits[4] = {shifted<-4>(high, 0x30), shifted<-2>(high, 0x30),
                             shifted<0>(high, 0x30), shifted<2>(high, 0x30)};
    MEADOW_UNROLL for (int j = 0; j < 4; j++) {
      const V8 nibbles = shifted(low[j % 2], j < 2 ? 0 : 4, 15);
      scales[j] = hn::Sub(hn::Or(nibbles, high_bits[j]), hn::Set(d8, 32));
    }
  }
  HWY_INLINE V8 bytes(int b, int j) const {  // an upper bit that is set means no offset
    const V8 low = shifted(dword(32 + 32 * (b / 4) + 4 * j), 2 * (b % 4), 3);
    return hn::Or(low, shifted(dword(4 * j), b - 2, 4));
  }
  HWY_INLINE VF scale(int) const { return d; }
  HWY_INLINE SubScale sub_scales(int b, int half) const {
    return sub_scale(scales[b / 2], b % 2 * 2 + half);
  }
};

// Q4_K and Q5_K: scales and minimums of 6 bits in 12 bytes: four scales, four minimums, then the
// low nibbles of the other four of each; their upper bits are those of the first eight bytes.
template <DType kDType>
struct SixBitScales : LargeBlocks<kDType> {
  static constexpr Minimum kMinimum = Minimum::kFloat;
  VF d, m;
  V8 scales[2], minimums_[2];  // byte i of vector j: of block 4j + i

  static constexpr int first_use(int at) {
    constexpr int kNibbles = info(kDType).block_bytes - 128;
    return at == 0 ? -1 : 2 * std::max(0, at / 32 - kNibbles / 32 - 1);
  }
  HWY_INLINE void load_block(const uint8_t* p, int64_t stride, int b) {
    this->load_parts(p, stride, b, first_use);
  }
  HWY_INLINE void load(const uint8_t* p, int64_t stride) {
    this->load_parts(p, stride, -1, first_use);
    d = this->rows.half(0);
    m = hn::Neg(this->rows.half(2));
    const V8 a = this->dword(4), b = this->dword(8), c = this->dword(12);
    scales[0] = low_bits<6>(a);
    minimums_[0] = low_bits<6>(b);
    scales[1] = hn::Or(low_bits<4>(c), shifted<2>(a, 0x30));
    minimums_[1] = hn::Or(shifted<4>(c, 15), shifted<2>(b, 0x30));
  }
  HWY_INLINE VF scale(int b) const { return hn::Mul(d, byte_as_float(scales[b / 4], b % 4)); }
  HWY_INLINE VF minimum(int b) const { return hn::Mul(m, byte_as_float(minimums_[b / 4], b % 4)); }
};

struct Q4_K : SixBitScales<DType::kQ4_K> {
  static constexpr int kLargest = 15;
  HWY_INLINE V8 bytes(int b, int j) const {
    return shifted(dword(16 + 32 * (b / 2) + 4 * j), b % 2 * 4, 15);
  }
};

struct Q5_K : SixBitScales<DType::kQ5_K> {
  static constexpr int kLargest = 31;
  HWY_INLINE V8 bytes(int b, int j) const {
    const V8 low = shifted(dword(48 + 32 * (b / 2) + 4 * j), b % 2 * 4, 15);
    return hn::Or(low, shifted(dword(16 + 4 * j), b - 4, 16));
  }
};

struct Q6_K : LargeBlocks<DType::kQ6_K> {
  static constexpr int kLargest = 63, kOffset = 32, kGroups = 2;
  VF d;

  static constexpr int first_use(int at) {
    return at == 192 || at == 208 ? -1 : at < 128 ? at / 64 * 4 + at / 32 % 2 : at / 32 % 2 * 4;
  }
  HWY_INLINE void load_block(const uint8_t* p, int64_t stride, int b) {
    load_parts(p, stride, b, first_use);
  }
  HWY_INLINE void load(const uint8_t* p, int64_t stride) {
    load_parts(p, stride, -1, first_use);
    d = rows.half(208);
  }
  HWY_INLINE V8 bytes(int b, int j) const {
    const int part = b % 4;
    const V8 low = shifted(dword(64 * (b / 4) + 32 * (part % 2) + 4 * j), part / 2 * 4, 15);
    return hn::Or(low, shifted(dword(128 + 32 * (b / 4) + 4 * j), 2 * part - 4, 0x30));
  }
  HWY_INLINE VF scale(int) const { return d; }
  HWY_INLINE SubScale sub_scales(int b, int half) const {
    return sub_scale(dword(192 + b / 2 * 4), b % 2 * 2 + half);
  }
};

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
