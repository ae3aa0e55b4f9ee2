// Blocks of quantised weights as integer vectors. One struct per type; the kernels know nothing
// else about a type. Per-target header: see matmul_simd.cc.
//
// Lanes are rows: vector j of a decoder holds columns 4j … 4j + 3 of the block, a dword per row.
#if defined(MEADOW_KERNELS_DECODERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_DECODERS_INL_H_
#undef MEADOW_KERNELS_DECODERS_INL_H_
#else
#define MEADOW_KERNELS_DECODERS_INL_H_
#endif

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

// 16 bytes at p of every row; out[j] has bytes 4j … 4j + 3 of each.
HWY_INLINE void load_rows(const uint8_t* p, int64_t stride, V8 out[4]) {
  const hn::ScalableTag<int64_t> d64;
  V32 a[4];
  MEADOW_UNROLL for (int r = 0; r < 4; r++) a[r] =
      hn::BitCast(d32, every_fourth_row(d8, p + r * stride, stride));
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d32, a[0], a[1]));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d32, a[0], a[1]));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d32, a[2], a[3]));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d32, a[2], a[3]));
  out[0] = hn::BitCast(d8, hn::InterleaveLower(d64, low01, low23));
  out[1] = hn::BitCast(d8, hn::InterleaveUpper(d64, low01, low23));
  out[2] = hn::BitCast(d8, hn::InterleaveLower(d64, high01, high23));
  out[3] = hn::BitCast(d8, hn::InterleaveUpper(d64, high01, high23));
}

// The half-precision number at p of every row.
HWY_INLINE VF load_halves(const uint8_t* p, int64_t stride) {
  const hn::Rebind<hwy::float16_t, DF> half;
  HWY_ALIGN hwy::float16_t h[kLanes];
  MEADOW_UNROLL for (int r = 0; r < kLanes; r++) std::memcpy(h + r, p + r * stride, 2);
  return hn::PromoteTo(df, hn::Load(half, h));
}

HWY_INLINE V8 low_nibbles(V8 z) { return hn::And(z, hn::Set(d8, 15)); }
HWY_INLINE V8 high_nibbles(V8 z) {
  return low_nibbles(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, z))));
}

// What every decoder has:
//   kType         its weight type
//   kWide         meets 16-bit activations (else 8-bit)
//   kOffset       value = (byte - kOffset) · scale + minimum; 0 if bytes are signed (wide types)
//   kMinimum      has a minimum
//   load(p, stride), then bytes(j) for j < 8, scale(), minimum()
struct Q4_0 {
  static constexpr DType kType = DType::kQ4_0;
  static constexpr bool kWide = false, kMinimum = false;
  static constexpr int kOffset = 8;
  V8 z[4];
  VF d;

  HWY_INLINE void load(const uint8_t* p, int64_t stride) {
    load_rows(p + 2, stride, z);
    d = load_halves(p, stride);
  }
  HWY_INLINE V8 bytes(int j) const { return j < 4 ? low_nibbles(z[j]) : high_nibbles(z[j - 4]); }
  HWY_INLINE VF scale() const { return d; }
  HWY_INLINE VF minimum() const { return d; }
};

struct Q4_1 {
  static constexpr DType kType = DType::kQ4_1;
  static constexpr bool kWide = false, kMinimum = true;
  static constexpr int kOffset = 0;
  V8 z[4];
  VF d, m;

  HWY_INLINE void load(const uint8_t* p, int64_t stride) {
    load_rows(p + 4, stride, z);
    d = load_halves(p, stride);
    m = load_halves(p + 2, stride);
  }
  HWY_INLINE V8 bytes(int j) const { return j < 4 ? low_nibbles(z[j]) : high_nibbles(z[j - 4]); }
  HWY_INLINE VF scale() const { return d; }
  HWY_INLINE VF minimum() const { return m; }
};

struct Q8_0 {
  static constexpr DType kType = DType::kQ8_0;
  static constexpr bool kWide = true, kMinimum = false;
  static constexpr int kOffset = 0;
  V8 z[8];
  VF d;

  HWY_INLINE void load(const uint8_t* p, int64_t stride) {
    load_rows(p + 2, stride, z);
    load_rows(p + 18, stride, z + 4);
    d = load_halves(p, stride);
  }
  HWY_INLINE V8 bytes(int j) const { return z[j]; }
  HWY_INLINE VF scale() const { return d; }
  HWY_INLINE VF minimum() const { return d; }
};

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
