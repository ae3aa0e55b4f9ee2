// Quantised activations, laid out for the matmul kernels. Per-target header.
//
// A tile is T tokens; a block of 32 columns of it is, in dwords (token fastest):
//   x[kDwords][T]   4 columns of 8 bits per dword in order, or 2 of 16 bits: dword 2j has columns
//   4j and
//                   4j + 2, dword 2j + 1 has columns 4j + 1 and 4j + 3
//   offset[T]       -kOffset · Σq, as int32
//   d[T]            the scale, f32
//   sum[T]          f32(Σq) · d
#if defined(MEADOW_KERNELS_ACTIVATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_ACTIVATIONS_INL_H_
#undef MEADOW_KERNELS_ACTIVATIONS_INL_H_
#else
#define MEADOW_KERNELS_ACTIVATIONS_INL_H_
#endif

#include <limits>

#include "kernels/decoders-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int x_dwords(bool wide) { return wide ? 16 : 8; }
constexpr int block_dwords(bool wide) { return x_dwords(wide) + 3; }

// One block of one token: writes every `step`-th dword.    x: f32 [32]
template <bool kWide>
HWY_INLINE void quantise_block(const float* x, int32_t weight_offset, int step, int32_t* out) {
  const hn::Rebind<int16_t, DF> half;
  constexpr float kTop = kWide ? 32767.0f : 127.0f;
  VF largest = hn::Zero(df);
  for (int i = 0; i < 32; i += kLanes) largest = hn::Max(largest, hn::Abs(hn::LoadU(df, x + i)));
  float d = hn::GetLane(hn::MaxOfLanes(df, largest)) / kTop;
  if (!(d >= std::numeric_limits<float>::min())) d = 0;
  HWY_ALIGN int16_t q[32] = {};
  int32_t sum = 0;
  if (d != 0) {
    V32 sums = hn::Zero(d32);
    const VF divisor = hn::Set(df, d), top = hn::Set(df, kTop);
    for (int i = 0; i < 32; i += kLanes) {
      const VF scaled = hn::Div(hn::LoadU(df, x + i), divisor);
      const V32 v = hn::NearestInt(hn::Min(hn::Max(scaled, hn::Neg(top)), top));
      sums = hn::Add(sums, v);
      hn::Store(hn::DemoteTo(half, v), half, q + i);
    }
    sum = hn::GetLane(hn::SumOfLanes(d32, sums));
  }
  if constexpr (kWide) {
    for (int j = 0; j < 32; j += 4, out += 2 * step) {
      out[0] = static_cast<int32_t>(static_cast<uint16_t>(q[j]) |
                                    static_cast<uint32_t>(static_cast<uint16_t>(q[j + 2])) << 16);
      out[step] =
          static_cast<int32_t>(static_cast<uint16_t>(q[j + 1]) |
                               static_cast<uint32_t>(static_cast<uint16_t>(q[j + 3])) << 16);
    }
  } else {
    const hn::CappedTag<int16_t, 8> d16x8;
    const hn::Rebind<int8_t, decltype(d16x8)> d8x8;
    HWY_ALIGN int8_t bytes[32];
    for (int i = 0; i < 32; i += 8)
      hn::StoreU(hn::DemoteTo(d8x8, hn::Load(d16x8, q + i)), d8x8, bytes + i);
    for (int j = 0; j < 32; j += 4, out += step) std::memcpy(out, bytes + j, 4);
  }
  out[0] = -weight_offset * sum;
  const float scaled_sum = static_cast<float>(sum) * d;
  std::memcpy(out + step, &d, 4);
  std::memcpy(out + 2 * step, &scaled_sum, 4);
}

// A whole tile.    x: f32 [k, tokens]    out: int32 [k/32 · block_dwords · tokens]
template <bool kWide>
void quantise_tile(const float* x, int64_t k, int tokens, int32_t weight_offset, int32_t* out) {
  for (int64_t b = 0; b < k / 32; b++)
    for (int t = 0; t < tokens; t++)
      quantise_block<kWide>(x + t * k + b * 32, weight_offset, tokens,
                            out + b * block_dwords(kWide) * tokens + t);
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
