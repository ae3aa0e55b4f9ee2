// Where a key or value lies inside a page. Internal to this folder.
// Thread rule: pure functions; any thread.
#pragma once
#include "kernels/attention.h"

namespace meadow::kernels {

// Values that share one scale in a page of type Q8_0: consecutive ones of a head.
inline constexpr int64_t kCacheBlock = 32;

// Per cache head four arrays, of which pages of floats have no scales:
//   keys          [64, head_dim]       positions fastest: scores of neighbouring positions share
//                                      a vector
//   key scales    f16 [64, blocks]
//   values        [value_stride, 64]   head dimension fastest
//   value scales  f16 [64, blocks]
// value_stride is head_dim rounded up to a whole block, or vector of floats.
// What lies beyond head_dim means nothing, except that a block's scale is that of what it has.
struct PageLayout {
  explicit PageLayout(const PageShape& shape)
      : quantised(shape.type == DType::kQ8_0),
        element_bytes(shape.type == DType::kF32   ? 4
                      : shape.type == DType::kF16 ? 2
                                                  : 1),
        head_dim(shape.head_dim),
        value_stride(quantised ? (head_dim + 31) / 32 * 32 : (head_dim + 15) / 16 * 16),
        blocks(quantised ? value_stride / kCacheBlock : 0),
        key_scales(head_dim * kPagePositions * element_bytes),
        values(key_scales + 2 * blocks * kPagePositions),
        value_scales(values + value_stride * kPagePositions * element_bytes),
        head_bytes(value_scales + 2 * blocks * kPagePositions) {}

  // In bytes from the start of the page; `slot` is the position inside the page.
  int64_t key(int64_t head, int64_t i, int64_t slot) const {
    return head * head_bytes + (i * kPagePositions + slot) * element_bytes;
  }
  int64_t value(int64_t head, int64_t i, int64_t slot) const {
    return head * head_bytes + values + (slot * value_stride + i) * element_bytes;
  }
  int64_t key_scale(int64_t head, int64_t block, int64_t slot) const {
    return head * head_bytes + key_scales + 2 * (block * kPagePositions + slot);
  }
  int64_t value_scale(int64_t head, int64_t block, int64_t slot) const {
    return head * head_bytes + value_scales + 2 * (block * kPagePositions + slot);
  }
  int64_t head_elements() const { return kPagePositions * (head_dim + value_stride); }

  bool quantised;
  int64_t element_bytes, head_dim, value_stride, blocks;
  // Offsets inside a head, and its size: multiples of 64 bytes.
  int64_t key_scales, values, value_scales, head_bytes;
};

}  // namespace meadow::kernels
