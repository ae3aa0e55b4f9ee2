// Stored rows turned so that lanes are rows. Per-target header: see matmul_simd.cc.
#if defined(MEADOW_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_ROWS_INL_H_
#undef MEADOW_KERNELS_ROWS_INL_H_
#else
#define MEADOW_KERNELS_ROWS_INL_H_
#endif

#include <array>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::ScalableTag<uint8_t>;
using D16 = hn::ScalableTag<int16_t>;
using D32 = hn::ScalableTag<int32_t>;
using DF = hn::ScalableTag<float>;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
using VF = hn::Vec<DF>;
constexpr D8 d8;
constexpr D16 d16;
constexpr D32 d32;
constexpr DF df;
constexpr int kLanes = HWY_MAX_BYTES / 4;  // rows per vector

// Bytes that repeat every 16, as constants in memory.
struct alignas(HWY_MAX_BYTES) Repeated {
  uint8_t bytes[HWY_MAX_BYTES];
  template <class ByteOf16>
  explicit constexpr Repeated(ByteOf16 byte) : bytes{} {
    for (int i = 0; i < HWY_MAX_BYTES; i++) bytes[i] = static_cast<uint8_t>(byte(i % 16));
  }
  HWY_INLINE V8 vector() const { return hn::Load(d8, bytes); }
};

// 16 bytes at p of rows 0, 4, 8, … of the vector, one per 128 bits.
template <class D>
HWY_INLINE hn::Vec<D> every_fourth_row(D d, const uint8_t* p, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 16) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    const int64_t rows = hn::MaxLanes(D()) / 8;
    return hn::Combine(d, every_fourth_row(half, p + rows * stride, stride),
                       every_fourth_row(half, p, stride));
  }
}

// Four vectors of 4-dword rows per 128 bits become four of dwords, transposed inside 128 bits.
HWY_INLINE void transpose_blocks(const V32 a[4], V8 out[4]) {
  const hn::ScalableTag<int64_t> d64;
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d32, a[0], a[1]));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d32, a[0], a[1]));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d32, a[2], a[3]));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d32, a[2], a[3]));
  out[0] = hn::BitCast(d8, hn::InterleaveLower(d64, low01, low23));
  out[1] = hn::BitCast(d8, hn::InterleaveUpper(d64, low01, low23));
  out[2] = hn::BitCast(d8, hn::InterleaveLower(d64, high01, high23));
  out[3] = hn::BitCast(d8, hn::InterleaveUpper(d64, high01, high23));
}

// 16 bytes at p of every row; out[j] has bytes 4j … 4j + 3 of each.
HWY_INLINE void load_16(const uint8_t* p, int64_t stride, V8 out[4]) {
  V32 a[4];
  MEADOW_UNROLL for (int r = 0; r < 4; r++) a[r] =
      hn::BitCast(d32, every_fourth_row(d8, p + r * stride, stride));
  transpose_blocks(a, out);
}

#if HWY_MAX_BYTES == 64 && HWY_ARCH_X86
// 32 bytes at p of eight rows: out[j] has dword j of rows 0 to 3, dword j + 4 of these, then both
// of rows 4 to 7.
HWY_INLINE void load_32_of_eight(const uint8_t* p, int64_t stride, V8 out[4]) {
  const hn::Half<D8> d8_half;
  V32 a[4];
  MEADOW_UNROLL for (int r = 0; r < 4; r++) a[r] =
      hn::BitCast(d32, hn::Combine(d8, hn::LoadU(d8_half, p + (r + 4) * stride),
                                   hn::LoadU(d8_half, p + r * stride)));
  transpose_blocks(a, out);
}
#endif

// The same for 32 bytes.
HWY_INLINE void load_32(const uint8_t* p, int64_t stride, V8 out[8]) {
#if HWY_MAX_BYTES == 64 && HWY_ARCH_X86
  // Half as many loads as load_16() twice, which bound it.
  V8 low[4], high[4];
  load_32_of_eight(p, stride, low);
  load_32_of_eight(p + 8 * stride, stride, high);
  MEADOW_UNROLL for (int j = 0; j < 4; j++) {
    out[j] = V8{_mm512_shuffle_i32x4(low[j].raw, high[j].raw, 0x88)};
    out[j + 4] = V8{_mm512_shuffle_i32x4(low[j].raw, high[j].raw, 0xdd)};
  }
#else
  load_16(p, stride, out);
  load_16(p + 16, stride, out + 4);
#endif
}

// kBytes bytes of every row, as vectors of dwords: all that decoders read. kBytes is even.
template <int kBytes>
class Rows {
 public:
  // Reads some of the bytes [0, kBytes) of kLanes rows: those for which wanted(first byte of a
  // part) is true. Parts begin at multiples of 32, and at most two shorter ones after them.
  template <class Wanted>
  HWY_INLINE void load(const uint8_t* p, int64_t stride, Wanted wanted) {
    MEADOW_UNROLL for (int at = 0; at + 32 <= kWhole; at += 32) {
      if (wanted(at)) load_32(p + at, stride, dwords_ + at / 4);
    }
    constexpr int kRest = kWhole / 32 * 32;
    if (kWhole % 32 != 0 && wanted(kRest)) {
      if constexpr (kWhole % 32 >= 16) load_16(p + kRest, stride, dwords_ + kRest / 4);
      if constexpr (kWhole % 16 != 0) load_16(p + kWhole - 16, stride, dwords_ + kWhole / 4 - 4);
    }
    if (kWhole != kBytes && wanted(kWhole)) {
      V8 z[4];
      load_16(p + kBytes - 16, stride, z);
      dwords_[kWhole / 4] = z[3];  // the last four bytes
    }
  }

  // Dword j of the `dwords` that begin at byte `start`. If that is no multiple of 4 they come
  // rotated: the last start % 4 bytes of the whole before the first.
  HWY_INLINE V8 dword(int start, int dwords, int j) const {
    const int odd = start % 4;
    const V8 v = get(start - odd + 4 * j);
    if (odd == 0 || j > 0) return v;
    const V8 first = hn::BitCast(d8, hn::Set(d32, (1 << 8 * odd) - 1));
    return hn::IfVecThenElse(first, get(start - odd + 4 * dwords), v);
  }

  // The half-precision number at an even byte.
  HWY_INLINE VF half(int byte) const {
    const hn::Rebind<uint16_t, DF> d16_half;
    const hn::Rebind<hwy::float16_t, DF> d_half;
    const hn::RebindToUnsigned<DF> du;
    const bool lower = byte % 4 == 0 && byte < kWhole;
    auto z = hn::BitCast(du, get(byte / 4 * 4));
    z = lower ? hn::And(z, hn::Set(du, 0xffff)) : hn::ShiftRight<16>(z);
    return hn::PromoteTo(df, hn::BitCast(d_half, hn::TruncateTo(d16_half, z)));
  }

 private:
  static constexpr int kWhole = kBytes / 4 * 4;
  HWY_INLINE V8 get(int byte) const { return dwords_[byte / 4]; }

  V8 dwords_[(kBytes + 3) / 4];
};

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
