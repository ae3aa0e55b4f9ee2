// Whether stored weights can be computed with at all. Loading reads every byte of a model for this,
// so it is a fast look for anything bad first, by all threads, and a slow one that says where.
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/dequantise.h"
#include "kernels/matmul.h"
#include "kernels/weight_block.h"

namespace meadow::kernels {
namespace {

// Whether one of `count` halves, each `step` bytes from the last, is infinite or NaN.
bool any_bad_half(const uint8_t* p, int64_t count, int64_t step) {
  unsigned found = 0;
  for (int64_t i = 0; i < count; i++) found |= (p[i * step + 1] & 0x7cu) + 0x04u;
  return (found & 0x80) != 0;
}

// The same for all the numbers in `bytes` bytes: 64 bits at a time, each number's exponent alone.
// Adding `one` to an exponent of all ones, and only to that, carries into the place of the sign.
bool any_bad(const uint8_t* p, int64_t bytes, uint64_t exponents, uint64_t ones, uint64_t signs) {
  using Line = uint64_t __attribute__((vector_size(64)));
  Line found = {};
  for (; bytes >= 64; bytes -= 64, p += 64) {
    Line line;
    std::memcpy(&line, p, sizeof line);
    found |= (line & exponents) + ones;
  }
  Line rest = {};
  std::memcpy(&rest, p, static_cast<size_t>(bytes));
  found |= (rest & exponents) + ones;
  uint64_t all = 0;
  for (int i = 0; i < 8; i++) all |= found[i];
  return (all & signs) != 0;
}

// For `blocks` blocks in a row. A step known at compile time is a quarter faster.
template <DType kType>
bool any_bad(const uint8_t* p, int64_t blocks) {
  constexpr int64_t kStep = info(kType).block_bytes;
  constexpr ScalePlaces kAt = scale_places(kType);
  if constexpr (kType == DType::kF32) {
    return any_bad(p, blocks * kStep, 0x7f8000007f800000, 0x0080000000800000, 0x8000000080000000);
  } else if constexpr (kType == DType::kF16) {
    return any_bad(p, blocks * kStep, 0x7c007c007c007c00, 0x0400040004000400, 0x8000800080008000);
  } else if constexpr (kType == DType::kBF16) {
    return any_bad(p, blocks * kStep, 0x7f807f807f807f80, 0x0080008000800080, 0x8000800080008000);
  } else if constexpr (kType == DType::kMXFP4) {
    bool bad = false;
    for (int64_t b = 0; b < blocks; b++) bad |= p[b * kStep + kAt.d] == 255;
    return bad;
  } else {
    bool bad = any_bad_half(p + kAt.d, blocks, kStep);
    if constexpr (kAt.m >= 0) bad |= any_bad_half(p + kAt.m, blocks, kStep);
    return bad;
  }
}

using AnyBad = bool (*)(const uint8_t*, int64_t);
template <int... kTypes>
constexpr auto table(std::integer_sequence<int, kTypes...>) {
  return std::array<AnyBad, sizeof...(kTypes)>{any_bad<static_cast<DType>(kTypes)>...};
}
constexpr auto kAnyBad = table(std::make_integer_sequence<int, std::size(kDTypes)>());

// First value of the row that is not finite or belongs to such a scale; -1 if there is none.
int64_t first_bad_value(const Matrix& w, const uint8_t* row, std::vector<float>& values) {
  const DTypeInfo& t = info(w.type);
  if (t.block_values > 1) {
    for (int64_t b = 0; b < w.k / t.block_values; b++)
      if (!finite_scales(w.type, row + b * t.block_bytes)) return b * t.block_values;
    return -1;
  }
  values.resize(static_cast<size_t>(w.k));
  dequantise_row(w.type, row, w.k, values.data());
  for (int64_t i = 0; i < w.k; i++)
    if (!std::isfinite(values[static_cast<size_t>(i)])) return i;
  return -1;
}

Result<void> find_bad(const Matrix& w) {
  std::vector<float> values;
  for (int64_t r = 0; r < w.m; r++) {
    const int64_t bad = first_bad_value(w, w.data + r * row_bytes(w.type, w.k), values);
    if (bad >= 0)
      return fail(
          Code::kCorrupt,
          "{} weights: row {}, column {}: expected finite numbers, got infinity or NaN; the "
          "file is damaged or was converted from a damaged one",
          info(w.type).name, r, bad);
  }
  return {};
}

}  // namespace

Result<void> check_weights(const Matrix& w, ThreadPool& pool) {
  const DTypeInfo& t = info(w.type);
  constexpr int64_t kChunkBytes = int64_t{1} << 18;  // fits a cache while d and m are looked at
  const int64_t blocks = w.k / t.block_values * w.m;
  std::atomic<bool> bad{false};
  pool.run(static_cast<size_t>(blocks), static_cast<size_t>(kChunkBytes / t.block_bytes),
           [&](size_t begin, size_t end, int) {
             const uint8_t* p = w.data + static_cast<int64_t>(begin) * t.block_bytes;
             if (kAnyBad[static_cast<size_t>(w.type)](p, static_cast<int64_t>(end - begin)))
               bad.store(true, std::memory_order_relaxed);
           });
  return bad ? find_bad(w) : Result<void>{};
}

Result<void> check_weights(const Matrix& w) {
  ThreadPool alone(1);
  return check_weights(w, alone);
}

}  // namespace meadow::kernels
