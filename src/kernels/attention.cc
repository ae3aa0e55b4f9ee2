#include "kernels/attention.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/matmul.h"
#include "kernels/page.h"
#include "kernels/reference.h"
#include "kernels/table.h"

namespace meadow::kernels {
namespace {

// Says which of the positions [first_position, first_position + n) of a head did not fit.
std::unexpected<Error> not_finite(const PageLayout& layout, DType type, uint8_t* page, int64_t head,
                                  int64_t first_position, int64_t n, const float* k, const float* v,
                                  int64_t step) {
  int64_t t = 0;
  for (; t + 1 < n; t++)
    if (!reference::store_head(layout, page, head, (first_position + t) % kPagePositions, 1,
                               k + t * step, v + t * step, step))
      break;
  return fail(Code::kInvalidArgument,
              "position {}, head {}: a key or value is not finite as {}; use an f32 cache or "
              "another prompt",
              first_position + t, head, info(type).name);
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
  const auto store_head = active_table().store_head;
  const PageLayout layout(shape);
  const int64_t width = shape.head_dim * shape.n_head_kv, last = first_position + n;
  for (int64_t position = first_position, count; position < last; position += count) {
    uint8_t* page = pages[static_cast<size_t>(position / kPagePositions)];
    const int64_t slot = position % kPagePositions;
    count = std::min(kPagePositions - slot, last - position);
    for (int64_t h = 0; h < shape.n_head_kv; h++) {
      const int64_t at = (position - first_position) * width + h * shape.head_dim;
      if (!store_head(layout, page, h, slot, count, k + at, v + at, width))
        return not_finite(layout, shape.type, page, h, position, count, k + at, v + at, width);
    }
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
