#include "kernels/attention.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "kernels/float_environment.h"
#include "kernels/page.h"
#include "kernels/table.h"

namespace meadow::kernels {
namespace {

// Stores one element; false if it is not finite once rounded.
bool store(const PageLayout& layout, uint8_t* page, int64_t element, float value) {
  if (layout.element_bytes == 2) {
    const uint16_t half = float_to_half(value);
    std::memcpy(page + 2 * element, &half, 2);
    return (half & 0x7c00) != 0x7c00;
  }
  std::memcpy(page + 4 * element, &value, 4);
  return std::isfinite(value);
}

}  // namespace

size_t PageShape::bytes() const {
  const PageLayout layout(*this);
  return static_cast<size_t>(n_head_kv * layout.head_elements() * layout.element_bytes);
}

Result<void> store_kv(const PageShape& shape, std::span<uint8_t* const> pages,
                      int64_t first_position, int64_t n, const float* k, const float* v) {
  MEADOW_CHECK(shape.type == DType::kF16 || shape.type == DType::kF32);
  MEADOW_CHECK(first_position + n <= static_cast<int64_t>(pages.size()) * kPagePositions);
  use_ieee_arithmetic();
  const PageLayout layout(shape);
  for (int64_t t = 0; t < n; t++) {
    const int64_t position = first_position + t, slot = position % kPagePositions;
    uint8_t* page = pages[static_cast<size_t>(position / kPagePositions)];
    for (int64_t h = 0; h < shape.n_head_kv; h++)
      for (int64_t i = 0; i < shape.head_dim; i++, k++, v++)
        if (!store(layout, page, layout.key(h, i, slot), *k) ||
            !store(layout, page, layout.value(h, i, slot), *v))
          return fail(Code::kInvalidArgument,
                      "position {}, head {}, element {}: key {} or value {} is not finite as {}; "
                      "use an f32 cache or another prompt",
                      position, h, i, *k, *v, info(shape.type).name);
  }
  return {};
}

void attention(const PageShape& shape, std::span<const uint8_t* const> pages,
               int64_t first_position, int64_t n, const float* q, int64_t n_head, float scale,
               float* out, ThreadPool& pool, Scratch& scratch) {
  MEADOW_CHECK(shape.type == DType::kF16 || shape.type == DType::kF32);
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
