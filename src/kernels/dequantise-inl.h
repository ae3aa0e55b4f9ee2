// Stored rows as f32, 16 values at a time: the integers in bytes, then one product (and a sum) as
// dequantise.cc has them. Per-target header.
#if defined(MEADOW_KERNELS_DEQUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_DEQUANTISE_INL_H_
#undef MEADOW_KERNELS_DEQUANTISE_INL_H_
#else
#define MEADOW_KERNELS_DEQUANTISE_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/chains-inl.h"
#include "kernels/weight_block.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

using DBytes = hn::CappedTag<uint8_t, 16>;
using VBytes = hn::Vec<DBytes>;
constexpr DBytes d_bytes;

// `mask` bits of each of 16 bytes, from bit `shift` on.
HWY_INLINE VBytes some_bits(const uint8_t* p, int64_t shift, uint8_t mask) {
  const hn::Repartition<uint16_t, DBytes> pairs;
  const auto shifted =
      hn::ShiftRightSame(hn::BitCast(pairs, hn::LoadU(d_bytes, p)), static_cast<int>(shift));
  return hn::And(hn::BitCast(d_bytes, shifted), hn::Set(d_bytes, mask));
}
HWY_INLINE VBytes times_16(VBytes v) {  // of values below 16
  const hn::Repartition<uint16_t, DBytes> pairs;
  return hn::BitCast(d_bytes, hn::ShiftLeft<4>(hn::BitCast(pairs, v)));
}
// 16 if the bit of 16 consecutive ones is set, else 0.
HWY_INLINE VBytes fifth_bits(const uint8_t* p) {
  alignas(16) static constexpr uint8_t kByte[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  alignas(16) static constexpr uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                                   1, 2, 4, 8, 16, 32, 64, 128};
  const hn::Repartition<uint16_t, DBytes> pairs;
  const auto both = hn::BitCast(d_bytes, hn::Set(pairs, static_cast<uint16_t>(p[0] | p[1] << 8)));
  const VBytes spread = hn::TableLookupBytes(both, hn::Load(d_bytes, kByte));
  const VBytes bit = hn::Load(d_bytes, kBit);
  return hn::IfThenElseZero(hn::Eq(hn::And(spread, bit), bit), hn::Set(d_bytes, uint8_t{16}));
}
HWY_INLINE VBytes minus(VBytes v, uint8_t offset) { return hn::Sub(v, hn::Set(d_bytes, offset)); }
HWY_INLINE VBytes looked_up(const int8_t* table, VBytes nibbles) {
  return hn::TableLookupBytes(hn::LoadU(d_bytes, reinterpret_cast<const uint8_t*>(table)), nibbles);
}

// Values 16 h … of part b of the stored block at p, as signed bytes; see weight_block.cc.
HWY_INLINE VBytes stored_integers(DType type, const uint8_t* p, int64_t b, int h) {
  const int64_t half = b / 4, quarter = b % 4, at = 16 * h;
  switch (type) {
    case DType::kQ8_0:
      return hn::LoadU(d_bytes, p + 2 + at);
    case DType::kQ4_0:
      return minus(some_bits(p + 2, 4 * h, 15), 8);
    case DType::kQ4_1:
      return some_bits(p + 4, 4 * h, 15);
    case DType::kQ5_0:
      return minus(hn::Or(some_bits(p + 6, 4 * h, 15), fifth_bits(p + 2 + 2 * h)), 16);
    case DType::kQ5_1:
      return hn::Or(some_bits(p + 8, 4 * h, 15), fifth_bits(p + 4 + 2 * h));
    case DType::kIQ4_NL:
      return looked_up(kIq4NlValues, some_bits(p + 2, 4 * h, 15));
    case DType::kMXFP4:
      return looked_up(kMxfp4Values, some_bits(p + 1, 4 * h, 15));
    case DType::kQ2_K:
      return some_bits(p + 16 + 32 * half + at, 2 * quarter, 3);
    case DType::kQ3_K: {
      const VBytes high = some_bits(p + at, b, 1);
      const VBytes offset =
          hn::IfThenElseZero(hn::Eq(high, hn::Zero(d_bytes)), hn::Set(d_bytes, uint8_t{4}));
      return hn::Sub(some_bits(p + 32 + 32 * half + at, 2 * quarter, 3), offset);
    }
    case DType::kQ4_K:
      return some_bits(p + 16 + 32 * (b / 2) + at, 4 * (b % 2), 15);
    case DType::kQ5_K:
      return hn::Or(some_bits(p + 48 + 32 * (b / 2) + at, 4 * (b % 2), 15),
                    times_16(some_bits(p + 16 + at, b, 1)));
    case DType::kQ6_K: {
      const VBytes low = some_bits(p + 64 * half + 32 * (quarter % 2) + at, 4 * (quarter / 2), 15);
      return minus(hn::Or(low, times_16(some_bits(p + 128 + 32 * half + at, 2 * quarter, 3))), 32);
    }
    default:
      return hn::Zero(d_bytes);
  }
}

// out[i] = d · v[i] (+ m) for 16 signed bytes.
template <bool kMinimum>
HWY_INLINE void scale_integers(VBytes v, float d, float m, float* out) {
  const hn::RebindToSigned<DChain> integers;
  const hn::Rebind<int8_t, DChain> few;
  int8_t bytes[16];
  hn::StoreU(v, d_bytes, reinterpret_cast<uint8_t*>(bytes));
  for (int i = 0; i < 16; i += kChainLanes) {
    const auto q = hn::ConvertTo(d_chain, hn::PromoteTo(integers, hn::LoadU(few, bytes + i)));
    auto value = hn::Mul(hn::Set(d_chain, d), q);
    if constexpr (kMinimum) value = hn::Add(value, hn::Set(d_chain, m));
    hn::StoreU(value, d_chain, out + i);
  }
}

template <DType kType>
HWY_NOINLINE void quantised_row(const uint8_t* row, int64_t k, float* out) {
  constexpr DTypeInfo kInfo = info(kType);
  constexpr int64_t kParts = kInfo.block_values / 32;
  for (int64_t block = 0; block < k / kInfo.block_values; block++, row += kInfo.block_bytes)
    for (int64_t b = 0; b < kParts; b++)
      for (int h = 0; h < 2; h++, out += 16) {
        const BlockScales s = block_scales(kType, row, b);
        scale_integers<has_minimum(kType)>(stored_integers(kType, row, b, h),
                                           s.d * static_cast<float>(s.scale[h]),
                                           s.m * static_cast<float>(s.minimum[h]), out);
      }
}

template <class Decoder>
HWY_NOINLINE void float_row(const uint8_t* row, int64_t k, float* out) {
  int64_t i = 0;
  for (; i + 8 <= k; i += 8) store_chains(Decoder::load(row + i * Decoder::kBytes), out + i);
  if (i == k) return;
  uint8_t padded[8 * 4] = {};
  float values[8];
  std::memcpy(padded, row + i * Decoder::kBytes, static_cast<size_t>((k - i) * Decoder::kBytes));
  store_chains(Decoder::load(padded), values);
  std::copy_n(values, k - i, out + i);
}

void dequantise_row(DType type, const uint8_t* row, int64_t k, float* out) {
  switch (type) {
    case DType::kF32:
      if (k > 0) std::memcpy(out, row, static_cast<size_t>(k) * 4);
      return;
    case DType::kF16:
      return float_row<DecodeF16>(row, k, out);
    case DType::kBF16:
      return float_row<DecodeBF16>(row, k, out);
#define MEADOW_ROW(type) \
  case DType::type:      \
    return quantised_row<DType::type>(row, k, out);
      MEADOW_ROW(kQ8_0)
      MEADOW_ROW(kQ4_0)
      MEADOW_ROW(kQ4_1)
      MEADOW_ROW(kQ5_0)
      MEADOW_ROW(kQ5_1)
      MEADOW_ROW(kQ2_K)
      MEADOW_ROW(kQ3_K)
      MEADOW_ROW(kQ4_K)
      MEADOW_ROW(kQ5_K)
      MEADOW_ROW(kQ6_K)
      MEADOW_ROW(kIQ4_NL)
      MEADOW_ROW(kMXFP4)
#undef MEADOW_ROW
  }
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
