#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "kernels/float_environment.h"
#include "kernels/matmul.h"
#include "kernels/page.h"
#include "kernels/table.h"

namespace meadow::kernels {
namespace {

// These store one block of one head of one position (a block of floats is one value), and return
// false if something is not finite once rounded.
//   values: f32 [count]    to: where they go, `step` bytes apart
bool store_f32(const float* values, int64_t count, uint8_t* to, int64_t step) {
  bool finite = true;
  for (int64_t i = 0; i < count; i++) {
    std::memcpy(to + i * step, values + i, 4);
    finite &= std::isfinite(values[i]);
  }
  return finite;
}
bool store_f16(const float* values, int64_t count, uint8_t* to, int64_t step) {
  bool finite = true;
  for (int64_t i = 0; i < count; i++) {
    const uint16_t half = float_to_half(values[i]);
    std::memcpy(to + i * step, &half, 2);
    finite &= (half & 0x7c00) != 0x7c00;
  }
  return finite;
}
// count: at most kCacheBlock
bool store_q8_0(const float* values, int64_t count, uint8_t* to, int64_t step, uint8_t* scale_to) {
  float largest = 0;
  for (int64_t i = 0; i < count; i++) {
    if (!std::isfinite(values[i])) return false;
    largest = std::max(largest, std::fabs(values[i]));
  }
  const uint16_t half = float_to_half(largest / 127.0f);
  if ((half & 0x7c00) == 0x7c00) return false;
  std::memcpy(scale_to, &half, 2);
  const float scale = half_to_float(half);
  for (int64_t i = 0; i < count; i++) {
    const float q = scale == 0 ? 0.0f : std::nearbyint(values[i] / scale);
    to[i * step] = static_cast<uint8_t>(static_cast<int8_t>(std::clamp(q, -127.0f, 127.0f)));
  }
  return true;
}

// Keys and values of one head of one position. Returns the first element of a block that has
// something not finite, or head_dim.
int64_t store_head(const PageLayout& layout, uint8_t* page, int64_t head, int64_t slot,
                   const float* k, const float* v) {
  const int64_t key_step = kPagePositions * layout.element_bytes, step = layout.element_bytes;
  const auto put = [&](const float* values, int64_t count, uint8_t* to, int64_t to_step,
                       uint8_t* scale) {
    if (layout.quantised) return store_q8_0(values, count, to, to_step, scale);
    return step == 2 ? store_f16(values, count, to, to_step)
                     : store_f32(values, count, to, to_step);
  };
  for (int64_t i = 0; i < layout.head_dim; i += kCacheBlock) {
    const int64_t count = std::min(kCacheBlock, layout.head_dim - i), block = i / kCacheBlock;
    if (!put(k + i, count, page + layout.key(head, i, slot), key_step,
             page + layout.key_scale(head, block, slot)) ||
        !put(v + i, count, page + layout.value(head, i, slot), step,
             page + layout.value_scale(head, block, slot)))
      return i;
  }
  return layout.head_dim;
}

}  // namespace

uint32_t numerics_id(DType cache_type) {
  MEADOW_CHECK(is_cache_type(cache_type));
  const uint32_t type = cache_type == DType::kF16 ? 0 : cache_type == DType::kF32 ? 1 : 2;
  return kNumericsVersion + (type << 8);
}

size_t PageShape::bytes() const {
  return static_cast<size_t>(n_head_kv * PageLayout(*this).head_bytes);
}

Result<void> store_kv(const PageShape& shape, std::span<uint8_t* const> pages,
                      int64_t first_position, int64_t n, const float* k, const float* v) {
  MEADOW_CHECK(is_cache_type(shape.type));
  MEADOW_CHECK(first_position + n <= static_cast<int64_t>(pages.size()) * kPagePositions);
  use_ieee_arithmetic();
  const PageLayout layout(shape);
  for (int64_t t = 0; t < n; t++) {
    const int64_t position = first_position + t, slot = position % kPagePositions;
    uint8_t* page = pages[static_cast<size_t>(position / kPagePositions)];
    for (int64_t h = 0; h < shape.n_head_kv; h++, k += layout.head_dim, v += layout.head_dim)
      if (const int64_t i = store_head(layout, page, h, slot, k, v); i < layout.head_dim)
        return fail(Code::kInvalidArgument,
                    "position {}, head {}: a key or value among elements {} to {} is not finite as "
                    "{}; use an f32 cache or another prompt",
                    position, h, i, std::min(i + kCacheBlock, layout.head_dim) - 1,
                    info(shape.type).name);
  }
  return {};
}

void attention(const PageShape& shape, std::span<const uint8_t* const> pages,
               int64_t first_position, int64_t n, const float* q, int64_t n_head, float scale,
               float* out, ThreadPool& pool, Scratch& scratch) {
  MEADOW_CHECK(is_cache_type(shape.type));
  MEADOW_CHECK(first_position + n <= static_cast<int64_t>(pages.size()) * kPagePositions);
  MEADOW_CHECK(shape.n_head_kv > 0 && n_head % shape.n_head_kv == 0);
  if (n == 0) return;
  active_table().attention(shape, pages, first_position, n, q, n_head, scale, out, pool, scratch);
}

void attention(const PageShape& shape, std::span<const AttentionPart> parts, const float* q,
               int64_t n_head, float scale, float* out, ThreadPool& pool, Scratch& scratch) {
  for (const AttentionPart& part : parts) {
    attention(shape, part.pages, part.first_position, part.n, q, n_head, scale, out, pool, scratch);
    q += shape.head_dim * n_head * part.n;
    out += shape.head_dim * n_head * part.n;
  }
}

}  // namespace meadow::kernels
