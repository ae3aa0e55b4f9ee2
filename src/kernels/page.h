// Where a key or value lies inside a page. Internal to this folder.
// Thread rule: pure functions; any thread.
#pragma once
#include "kernels/attention.h"

namespace meadow::kernels {

// Per cache head: keys [kPagePositions, head_dim] (positions fastest, so that scores of
// neighbouring positions share a vector), then values [value_stride, kPagePositions] (head
// dimension fastest). value_stride is head_dim rounded up to a whole vector; what lies beyond
// head_dim means nothing.
struct PageLayout {
  explicit PageLayout(const PageShape& shape)
      : element_bytes(shape.type == DType::kF16 ? 2 : 4),
        head_dim(shape.head_dim),
        value_stride((shape.head_dim + 15) / 16 * 16) {}

  int64_t head_elements() const { return kPagePositions * (head_dim + value_stride); }
  // In elements from the start of the page; `slot` is the position inside the page.
  int64_t key(int64_t head, int64_t i, int64_t slot) const {
    return head * head_elements() + i * kPagePositions + slot;
  }
  int64_t value(int64_t head, int64_t i, int64_t slot) const {
    return head * head_elements() + head_dim * kPagePositions + slot * value_stride + i;
  }

  int64_t element_bytes, head_dim, value_stride;
};

}  // namespace meadow::kernels
