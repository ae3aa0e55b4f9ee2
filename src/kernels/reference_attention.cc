#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "kernels/math.h"
#include "kernels/page.h"
#include "kernels/reference.h"

namespace meadow::kernels::reference {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// softmax-weighted values of some positions, not yet divided: the weights are exp(score - max), sum
// their sum, out the weighted sum of values. Starts as that of no positions.
struct Partial {
  float max = kMinusInfinity;
  float sum = 0;
  std::vector<float> out;
};

// The value at `at`, whose scale, if it has one, is at `scale_at`; both in bytes.
float load(const PageLayout& layout, const uint8_t* page, int64_t at, int64_t scale_at) {
  if (layout.element_bytes == 4) {
    float value;
    std::memcpy(&value, page + at, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, page + (layout.quantised ? scale_at : at), 2);
  if (!layout.quantised) return half_to_float(half);
  return static_cast<float>(static_cast<int8_t>(page[at])) * half_to_float(half);
}
float load_key(const PageLayout& layout, const uint8_t* page, int64_t head, int64_t i, int64_t s) {
  return load(layout, page, layout.key(head, i, s), layout.key_scale(head, i / kCacheBlock, s));
}
float load_value(const PageLayout& layout, const uint8_t* page, int64_t head, int64_t i,
                 int64_t s) {
  return load(layout, page, layout.value(head, i, s), layout.value_scale(head, i / kCacheBlock, s));
}

// Adds the first `count` positions of a page, at least one.
void add_group(const PageLayout& layout, const uint8_t* page, int64_t count, const float* q,
               int64_t head, float scale, Partial& partial) {
  float score[kPagePositions], weight[kPagePositions], one[kPagePositions];
  std::vector<float> key(static_cast<size_t>(layout.head_dim));
  float max = kMinusInfinity;
  for (int64_t s = 0; s < count; s++) {
    for (int64_t i = 0; i < layout.head_dim; i++)
      key[static_cast<size_t>(i)] = load_key(layout, page, head, i, s);
    score[s] = dot(q, key.data(), layout.head_dim) * scale;
    max = std::max(max, score[s]);
  }
  const float new_max = std::max(partial.max, max);
  const float rescale = exp_f32(partial.max - new_max);
  for (int64_t s = 0; s < count; s++) {
    weight[s] = exp_f32(score[s] - new_max);
    one[s] = 1;
  }
  partial.max = new_max;
  partial.sum = std::fma(partial.sum, rescale, dot(weight, one, count));
  for (int64_t i = 0; i < layout.head_dim; i++) {
    float o = partial.out[static_cast<size_t>(i)] * rescale;
    for (int64_t s = 0; s < count; s++)
      o = std::fma(weight[s], load_value(layout, page, head, i, s), o);
    partial.out[static_cast<size_t>(i)] = o;
  }
}

// `later` holds higher positions than `total`.
void merge(const Partial& later, Partial& total) {
  const float max = std::max(total.max, later.max);
  const float a = exp_f32(total.max - max), b = exp_f32(later.max - max);
  total.max = max;
  total.sum = std::fma(later.sum, b, total.sum * a);
  for (size_t i = 0; i < total.out.size(); i++)
    total.out[i] = std::fma(later.out[i], b, total.out[i] * a);
}

}  // namespace

void attend(const PageShape& shape, std::span<const uint8_t* const> pages, int64_t position,
            const float* q, int64_t head, float scale, float* out) {
  const PageLayout layout(shape);
  const std::vector<float> zeros(static_cast<size_t>(shape.head_dim));
  Partial total;
  for (int64_t begin = 0; begin <= position; begin += kPartialPositions) {
    Partial partial{.out = zeros};
    const int64_t end = std::min(begin + kPartialPositions, position + 1);
    for (int64_t group = begin; group < end; group += kPagePositions)
      add_group(layout, pages[static_cast<size_t>(group / kPagePositions)],
                std::min(kPagePositions, end - group), q, head, scale, partial);
    if (begin == 0)
      total = std::move(partial);
    else
      merge(partial, total);
  }
  for (size_t i = 0; i < total.out.size(); i++) out[i] = total.out[i] / total.sum;
}

void attention(const PageShape& shape, std::span<const uint8_t* const> pages,
               int64_t first_position, int64_t n, const float* q, int64_t n_head, float scale,
               float* out) {
  const int64_t heads_per_kv = n_head / shape.n_head_kv;
  for (int64_t t = 0; t < n; t++)
    for (int64_t h = 0; h < n_head; h++) {
      const int64_t offset = (t * n_head + h) * shape.head_dim;
      attend(shape, pages, first_position + t, q + offset, h / heads_per_kv, scale, out + offset);
    }
}

}  // namespace meadow::kernels::reference
