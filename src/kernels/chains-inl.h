// The float rule in vectors: 8 chains side by side. Per-target header.
#if defined(MEADOW_KERNELS_CHAINS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_CHAINS_INL_H_
#undef MEADOW_KERNELS_CHAINS_INL_H_
#else
#define MEADOW_KERNELS_CHAINS_INL_H_
#endif

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DChain = hn::CappedTag<float, 8>;
using D4 = hn::CappedTag<float, 4>;
constexpr DChain d_chain;
constexpr D4 d4;
constexpr int kChainLanes = HWY_MAX_BYTES / 4 < 8 ? HWY_MAX_BYTES / 4 : 8;
constexpr int kChainVectors = 8 / kChainLanes;

struct Chains {
  hn::Vec<DChain> v[kChainVectors];
};

HWY_INLINE Chains zero_chains() {
  Chains c;
  for (auto& v : c.v) v = hn::Zero(d_chain);
  return c;
}
// p: f32 [8], any alignment
HWY_INLINE Chains load_chains(const float* p) {
  Chains c;
  for (int i = 0; i < kChainVectors; i++) c.v[i] = hn::LoadU(d_chain, p + i * kChainLanes);
  return c;
}
HWY_INLINE void store_chains(const Chains& c, float* p) {
  for (int i = 0; i < kChainVectors; i++) hn::StoreU(c.v[i], d_chain, p + i * kChainLanes);
}
HWY_INLINE void add_product(const Chains& a, const Chains& b, Chains& acc) {
  for (int i = 0; i < kChainVectors; i++) acc.v[i] = hn::MulAdd(a.v[i], b.v[i], acc.v[i]);
}

// c[i] + c[i + 4]
HWY_INLINE hn::Vec<D4> halve(const Chains& c) {
#if HWY_MAX_BYTES == 16
  return hn::Add(c.v[0], c.v[1]);
#else
  return hn::Add(hn::LowerHalf(d4, c.v[0]), hn::UpperHalf(d4, c.v[0]));
#endif
}
// The merged sums of four rows, one per lane.
HWY_INLINE hn::Vec<D4> merge_four(const Chains& a, const Chains& b, const Chains& c,
                                  const Chains& d) {
  const hn::RepartitionToWide<D4> d64;
  const auto va = halve(a), vb = halve(b), vc = halve(c), vd = halve(d);
  const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d4, va, vb));   // a0 b0 a1 b1
  const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d4, va, vb));  // a2 b2 a3 b3
  const auto cd_low = hn::BitCast(d64, hn::InterleaveLower(d4, vc, vd));
  const auto cd_high = hn::BitCast(d64, hn::InterleaveUpper(d4, vc, vd));
  const auto s0 = hn::BitCast(d4, hn::InterleaveLower(d64, ab_low, cd_low));
  const auto s1 = hn::BitCast(d4, hn::InterleaveUpper(d64, ab_low, cd_low));
  const auto s2 = hn::BitCast(d4, hn::InterleaveLower(d64, ab_high, cd_high));
  const auto s3 = hn::BitCast(d4, hn::InterleaveUpper(d64, ab_high, cd_high));
  return hn::Add(hn::Add(s0, s2), hn::Add(s1, s3));
}

// Eight stored values as f32, exactly. load(p) reads 8 · kBytes bytes at any alignment;
// load_twice(p) puts them into both halves of 512 bits.
struct DecodeF32 {
  static constexpr int64_t kBytes = 4;
  static HWY_INLINE Chains load(const uint8_t* p) {
    const hn::Repartition<uint8_t, DChain> bytes;
    Chains c;
    for (int i = 0; i < kChainVectors; i++)
      c.v[i] = hn::BitCast(d_chain, hn::LoadU(bytes, p + i * kChainLanes * 4));
    return c;
  }
#if HWY_MAX_BYTES == 64
  // Highway has no load that repeats 256 bits, and a combination costs a shuffle each time.
  static HWY_INLINE hn::Vec<hn::ScalableTag<float>> load_twice(const uint8_t* p) {
    return {_mm512_broadcast_f32x8(load(p).v[0].raw)};
  }
#endif
};
struct DecodeF16 {
  static constexpr int64_t kBytes = 2;
  static HWY_INLINE Chains load(const uint8_t* p) {
    const hn::Rebind<hwy::float16_t, DChain> half;
    const hn::Repartition<uint8_t, decltype(half)> bytes;
    Chains c;
    for (int i = 0; i < kChainVectors; i++)
      c.v[i] = hn::PromoteTo(d_chain, hn::BitCast(half, hn::LoadU(bytes, p + i * kChainLanes * 2)));
    return c;
  }
#if HWY_MAX_BYTES == 64
  static HWY_INLINE hn::Vec<hn::ScalableTag<float>> load_twice(const uint8_t* p) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> half;
    const hn::Repartition<uint8_t, decltype(half)> bytes;
    return hn::PromoteTo(d, hn::BitCast(half, hn::LoadDup128(bytes, p)));
  }
#endif
};
struct DecodeBF16 {
  static constexpr int64_t kBytes = 2;
  static HWY_INLINE Chains load(const uint8_t* p) {
    const hn::RebindToUnsigned<DChain> wide;
    const hn::Rebind<uint16_t, DChain> half;
    const hn::Repartition<uint8_t, decltype(half)> bytes;
    Chains c;
    for (int i = 0; i < kChainVectors; i++) {
      const auto bits = hn::BitCast(half, hn::LoadU(bytes, p + i * kChainLanes * 2));
      c.v[i] = hn::BitCast(d_chain, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
    }
    return c;
  }
#if HWY_MAX_BYTES == 64
  static HWY_INLINE hn::Vec<hn::ScalableTag<float>> load_twice(const uint8_t* p) {
    const hn::ScalableTag<float> d;
    const hn::Repartition<uint8_t, decltype(d)> bytes;
    // Each value becomes the high half of a dword.
    alignas(64) static constexpr uint8_t kSpread[64] = {
#define MEADOW_SPREAD(i) 0x80, 0x80, (i), (i) + 1
        MEADOW_SPREAD(0), MEADOW_SPREAD(2),  MEADOW_SPREAD(4),  MEADOW_SPREAD(6),
        MEADOW_SPREAD(8), MEADOW_SPREAD(10), MEADOW_SPREAD(12), MEADOW_SPREAD(14),
        MEADOW_SPREAD(0), MEADOW_SPREAD(2),  MEADOW_SPREAD(4),  MEADOW_SPREAD(6),
        MEADOW_SPREAD(8), MEADOW_SPREAD(10), MEADOW_SPREAD(12), MEADOW_SPREAD(14)};
#undef MEADOW_SPREAD
    return hn::BitCast(d,
                       hn::TableLookupBytesOr0(hn::LoadDup128(bytes, p), hn::Load(bytes, kSpread)));
  }
#endif
};

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
