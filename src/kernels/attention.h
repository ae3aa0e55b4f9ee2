// Causal attention over a cache of pages, and the writing of those pages.
// Thread rule: a position is written by one caller while nobody reads it, other positions of its
// page at the same time; a ThreadPool and a Scratch serve one call at a time. Owns nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/scratch.h"

namespace meadow::kernels {

// A page holds keys and values of 64 consecutive positions of one block of the model; page i of a
// session holds positions [64 i, 64 i + 64). It is also the group of the softmax
// (docs/numerics.md).
inline constexpr int64_t kPagePositions = 64;
// Positions whose partial result is one unit of the merge.
inline constexpr int64_t kPartialPositions = 1024;

constexpr bool is_cache_type(DType type) {
  return type == DType::kF16 || type == DType::kF32 || type == DType::kQ8_0;
}

// The numerics id of docs/numerics.md: what must be equal where bits are to be equal, the version
// and the type of the cache. That of F16 is the version alone.
uint32_t numerics_id(DType cache_type);

// The layout inside a page is private to this folder.
struct PageShape {
  DType type;  // a cache type
  int64_t head_dim, n_head_kv;

  // Bytes of one page, keys and values together; pages are 64-byte aligned.
  size_t bytes() const;
};

// Writes positions [first_position, first_position + n), rounded to the page's type.
//   k, v: f32 [head_dim, n_head_kv, n]
//   pages: one pointer per page from position 0 on; those before first_position are not touched
// kInvalidArgument if a value is not finite once rounded (f16 ends at 65504, Q8_0 at 127 times
// that); pages then hold some
// of the positions, and the caller still counts none of them.
Result<void> store_kv(const PageShape& shape, std::span<uint8_t* const> pages,
                      int64_t first_position, int64_t n, const float* k, const float* v);

// softmax(scale · q kᵀ) v for the queries of positions [first_position, first_position + n), each
// over positions 0 to its own. Query head h reads cache head h / (n_head / n_head_kv). Same bits
// for every n, thread count and target. Blocks until done.
//   q, out: f32 [head_dim, n_head, n]; n_head a multiple of n_head_kv
//   pages: at least those that hold positions [0, first_position + n), all stored
void attention(const PageShape& shape, std::span<const uint8_t* const> pages,
               int64_t first_position, int64_t n, const float* q, int64_t n_head, float scale,
               float* out, ThreadPool& pool, Scratch& scratch);

// One session's columns in a call that serves many.
struct AttentionPart {
  int64_t first_position, n;
  std::span<const uint8_t* const> pages;
};

// The same for many sessions at once: the columns of q and out are those of the parts, one part
// after the other. Each part has the bits that it has alone.
void attention(const PageShape& shape, std::span<const AttentionPart> parts, const float* q,
               int64_t n_head, float scale, float* out, ThreadPool& pool, Scratch& scratch);

}  // namespace meadow::kernels
