// Random weights, activations and pages for the tests of this folder.
// Thread rule: functions of their Rng; one thread.
#pragma once
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/rng.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/weight_block.h"

namespace meadow::kernels::test {

inline constexpr auto kAllTypes = [] {
  std::array<DType, std::size(kDTypes)> types{};
  for (size_t i = 0; i < types.size(); i++) types[i] = kDTypes[i].type;
  return types;
}();

// How the numbers of a test are spread.
enum class Values { kOrdinary, kZeros, kTiny, kHuge, kMixed };
inline constexpr Values kAllValues[] = {Values::kOrdinary, Values::kZeros, Values::kTiny,
                                        Values::kHuge, Values::kMixed};

// Roughly normal with unit variance.
inline float normal(Rng& rng) {
  double sum = 0;
  for (int i = 0; i < 12; i++) sum += rng.uniform();
  return static_cast<float>(sum - 6);
}

inline float draw(Rng& rng, Values values) {
  const float x = normal(rng);
  switch (values) {
    case Values::kOrdinary:
      return x;
    case Values::kZeros:
      return rng.below(4) == 0 ? -0.0f : 0.0f;
    case Values::kTiny:
      return x * 0x1p-135f;  // subnormal
    case Values::kHuge:
      return x * 0x1p+40f;
    case Values::kMixed:
      return std::ldexp(x, static_cast<int>(rng.below(80)) - 60);
  }
  return 0;
}

inline std::vector<float> floats(Rng& rng, int64_t count, Values values = Values::kOrdinary) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = draw(rng, values);
  return out;
}

struct Weights {
  std::vector<uint8_t> bytes;
  Matrix matrix;
};

// The exponent of a power of two as MXFP4 stores it, 128 more; any that `values` may give.
inline uint8_t exponent_byte(float x) {
  return static_cast<uint8_t>(std::clamp(x == 0 ? 0 : std::ilogb(x) + 128, 0, 200));
}

// Writes the half `d` (and `m`, if the type has a minimum) over a stored block's scales.
inline void set_scales(DType type, uint8_t* block, float d, float m) {
  const auto half = [](float x) {
    return float_to_half(std::fabs(x) < 60000 ? x : std::copysign(60000.0f, x));
  };
  const ScalePlaces at = scale_places(type);
  const uint16_t d_bits = half(d), m_bits = half(m);
  if (type == DType::kMXFP4)
    block[at.d] = exponent_byte(d);
  else
    std::memcpy(block + at.d, &d_bits, 2);
  if (at.m >= 0) std::memcpy(block + at.m, &m_bits, 2);
}

// Bytes of any pattern with finite scales and values.
inline Weights weights(Rng& rng, DType type, int64_t k, int64_t m, Values values) {
  Weights w;
  w.bytes.resize(static_cast<size_t>(m * row_bytes(type, k)));
  rng.fill(w.bytes);
  const int64_t block = info(type).block_bytes;
  for (size_t at = 0; at < w.bytes.size(); at += static_cast<size_t>(block)) {
    uint8_t* p = w.bytes.data() + at;
    const float x = draw(rng, values);
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint16_t half = float_to_half(std::fabs(x) < 60000 ? x : std::copysign(60000.0f, x));
    if (type == DType::kF32)
      std::memcpy(p, &bits, 4);
    else if (type == DType::kBF16)
      p[0] = bits >> 16 & 255, p[1] = bits >> 24 & 255;
    else if (type == DType::kF16)
      std::memcpy(p, &half, 2);
    else
      set_scales(type, p, x, draw(rng, Values::kOrdinary) * 0.125f);
  }
  w.matrix = {type, w.bytes.data(), k, m};
  return w;
}

// 64-byte aligned pages filled with NaN bits, so that what was never stored shows.
class Pages {
 public:
  Pages(const PageShape& shape, int64_t positions) {
    const size_t count = static_cast<size_t>((positions + kPagePositions - 1) / kPagePositions);
    const size_t step = (shape.bytes() + 63) / 64 * 64;
    memory_.assign(count * step + 64, 0xff);
    auto start = reinterpret_cast<uintptr_t>(memory_.data());
    uint8_t* first = memory_.data() + (64 - start % 64) % 64;
    for (size_t i = 0; i < count; i++) pages_.push_back(first + i * step);
  }
  std::span<uint8_t* const> writable() const { return pages_; }
  std::vector<const uint8_t*> readable() const { return {pages_.begin(), pages_.end()}; }

 private:
  std::vector<uint8_t> memory_;
  std::vector<uint8_t*> pages_;
};

// Empty if all bits are equal, else the first difference.
inline std::string difference(std::span<const float> got, std::span<const float> want) {
  if (got.size() != want.size()) return "sizes differ";
  for (size_t i = 0; i < got.size(); i++)
    if (std::bit_cast<uint32_t>(got[i]) != std::bit_cast<uint32_t>(want[i]))
      return "element " + std::to_string(i) + ": " + fmt::format("{:.9g} {:.9g}", got[i], want[i]);
  return {};
}

}  // namespace meadow::kernels::test
