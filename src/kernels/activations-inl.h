// Quantised activations, laid out for the matmul kernels. Per-target header.
//
// A tile is T tokens; a block of 32 columns of it is, in dwords (token fastest):
//   x[8][T]         4 columns of 8 bits per dword in the decoder's order, or, wide, x[16][T] of 2
//   of
//                   16 bits: dword 2j has columns 0 and 2 of the decoder's vector j, 2j + 1 the
//                   rest
//   start[groups][T]  where the sums start, if an offset is folded in: -fold · Σq of the group;
//   where
//                   sums are 16-bit a pair, of columns 0 and 1 and of columns 2 and 3 of the dwords
//   correction[T]   int32 (fold - offset) · Σq, if not 0
//   d[T]            the scale, f32
//   sum[T]          for minimums: f32(Σq) · d, or Σq of the two halves as a pair of 16 bits
#if defined(MEADOW_KERNELS_ACTIVATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_ACTIVATIONS_INL_H_
#undef MEADOW_KERNELS_ACTIVATIONS_INL_H_
#else
#define MEADOW_KERNELS_ACTIVATIONS_INL_H_
#endif

#include <limits>

#include "kernels/dots-inl.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

// What the activations for a decoder hold, and the index of each field's first dword.
struct ActivationLayout {
  int top, array_columns;
  int rotation[8];
  int fold, offset, groups;
  bool wide, sums16;
  Minimum minimum;

  constexpr bool has_starts() const { return fold != 0; }
  constexpr bool has_correction() const { return fold != offset; }
  constexpr int x_dwords() const { return wide ? 16 : 8; }
  constexpr int correction_at() const { return x_dwords() + (has_starts() ? groups : 0); }
  constexpr int d_at() const { return correction_at() + has_correction(); }
  constexpr int sum_at() const { return d_at() + 1; }
  constexpr int dwords() const { return sum_at() + (minimum != Minimum::kNone); }
};

template <class Decoder>
constexpr ActivationLayout layout_for() {
  ActivationLayout l{};
  l.top = Decoder::kTop;
  l.array_columns = 4 * Decoder::kArrayDwords;
  for (int b = 0; b < 8; b++) l.rotation[b] = Decoder::rotation(b);
  l.wide = Decoder::kWide;
  l.sums16 = !l.wide && NarrowDot<1>::kSums16;
  l.offset = l.wide ? 0 : Decoder::kOffset;
  // Unsigned 5 bits overflow 16-bit sums, signed ones do not.
  l.fold = l.sums16 && l.offset == 0 && Decoder::kLargest > 15 ? 16 : l.offset;
  l.groups = Decoder::kGroups;
  l.minimum = Decoder::kMinimum;
  return l;
}

// 32 activations rounded.    x: f32 [32]    q: [32], aligned    Returns their scale.
HWY_INLINE float round_block(const float* x, float limit, int16_t* q) {
  const hn::Rebind<int16_t, DF> half;
  VF largest = hn::Zero(df);
  for (int i = 0; i < 32; i += kLanes) largest = hn::Max(largest, hn::Abs(hn::LoadU(df, x + i)));
  const float d = hn::GetLane(hn::MaxOfLanes(df, largest)) / limit;
  if (!(d >= std::numeric_limits<float>::min())) {
    std::fill_n(q, 32, int16_t{0});
    return 0;
  }
  const VF divisor = hn::Set(df, d), top = hn::Set(df, limit);
  for (int i = 0; i < 32; i += kLanes) {
    const VF scaled = hn::Div(hn::LoadU(df, x + i), divisor);
    const V32 v = hn::NearestInt(hn::Min(hn::Max(scaled, hn::Neg(top)), top));
    hn::Store(hn::DemoteTo(half, v), half, q + i);
  }
  return d;
}

// The decoder's order of a block's columns.    q, out: [32]
inline void rotate_columns(const int16_t* q, int array_columns, int rotation, int16_t* out) {
  for (int first = 0; first < 32; first += array_columns) {
    const size_t moved = static_cast<size_t>(rotation) * sizeof(int16_t);
    const size_t kept = static_cast<size_t>(array_columns - rotation) * sizeof(int16_t);
    std::memcpy(out + first, q + first + array_columns - rotation, moved);
    std::memcpy(out + first + rotation, q + first, kept);
  }
}

HWY_INLINE int32_t pair(int32_t low, int32_t high) {
  return static_cast<int32_t>(static_cast<uint32_t>(low) & 0xffff) |
         static_cast<int32_t>(static_cast<uint32_t>(high) << 16);
}

// The two sums of a group: of columns 0 and 1, and 2 and 3, of its dwords.
struct GroupSums {
  int32_t first = 0, second = 0;
  int32_t all() const { return first + second; }
};

// The sums of 16 columns.    q: [16], aligned
HWY_INLINE GroupSums sum_columns(const int16_t* q) {
  const hn::FixedTag<int16_t, 8> narrow;
  const hn::FixedTag<int32_t, 4> wide;
  auto sum = hn::Zero(wide);  // of neighbours: first, second, first, second
  for (int i = 0; i < 16; i += 8) {
    const auto pairs = hn::BitCast(wide, hn::Load(narrow, q + i));
    sum = hn::Add(sum, hn::ShiftRight<16>(hn::ShiftLeft<16>(pairs)));
    sum = hn::Add(sum, hn::ShiftRight<16>(pairs));
  }
  HWY_ALIGN int32_t sums[4];
  hn::Store(sum, wide, sums);
  return {sums[0] + sums[2], sums[1] + sums[3]};
}

// 32 columns of 8 bits, in their order.    q: [32], aligned    out: dwords [8], aligned
HWY_INLINE void demote_columns(const int16_t* q, int32_t* out) {
  const hn::FixedTag<int16_t, 8> from;
  const hn::FixedTag<int8_t, 8> to;
  const hn::FixedTag<int32_t, 2> dwords;
  for (int i = 0; i < 4; i++)
    hn::Store(hn::BitCast(dwords, hn::DemoteTo(to, hn::Load(from, q + 8 * i))), dwords,
              out + 2 * i);
}

// One block of one token: writes every `step`-th dword.    x: f32 [32]
HWY_INLINE void quantise_block(const ActivationLayout& l, const float* x, int block, int step,
                               int32_t* out) {
  HWY_ALIGN int16_t rounded[32], rotated[32];
  const int16_t* q = rounded;
  const float d = round_block(x, static_cast<float>(l.top), rounded);
  if (l.rotation[block] != 0) {
    rotate_columns(rounded, l.array_columns, l.rotation[block], rotated);
    q = rotated;
  }
  GroupSums sums[2] = {sum_columns(q), sum_columns(q + 16)};
  const int32_t all = sums[0].all() + sums[1].all();
  if (l.groups == 1) sums[0] = {sums[0].first + sums[1].first, sums[0].second + sums[1].second};

  const auto put = [out, step](int at, auto value) { std::memcpy(out + at * step, &value, 4); };
  if (l.wide) {
    for (int j = 0; j < 8; j++) {
      put(2 * j, pair(q[4 * j], q[4 * j + 2]));
      put(2 * j + 1, pair(q[4 * j + 1], q[4 * j + 3]));
    }
  } else {
    HWY_ALIGN int32_t dwords[8];
    demote_columns(q, dwords);
    for (int j = 0; j < 8; j++) put(j, dwords[j]);
  }
  for (int g = 0; l.has_starts() && g < l.groups; g++)
    put(l.x_dwords() + g, l.sums16 ? pair(-l.fold * sums[g].first, -l.fold * sums[g].second)
                                   : -l.fold * sums[g].all());
  if (l.has_correction()) put(l.correction_at(), (l.fold - l.offset) * all);
  put(l.d_at(), d);
  if (l.minimum == Minimum::kFloat) put(l.sum_at(), static_cast<float>(all) * d);
  if (l.minimum == Minimum::kPairs) put(l.sum_at(), pair(sums[0].all(), sums[1].all()));
}

// A whole tile.    x: f32 [k, tokens]    out: int32 [k/32 · dwords · tokens]
template <class Decoder>
void quantise_tile(const float* x, int64_t k, int tokens, int32_t* out) {
  constexpr ActivationLayout l = layout_for<Decoder>();
  for (int64_t b = 0; b < k / 32; b++)
    for (int t = 0; t < tokens; t++)
      quantise_block(l, x + t * k + b * 32, static_cast<int>(b % 8), tokens,
                     out + b * l.dwords() * tokens + t);
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
