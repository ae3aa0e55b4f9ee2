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

bool store_head(const PageLayout& layout, uint8_t* page, int64_t head, int64_t slot, int64_t n,
                const float* k, const float* v, int64_t step) {
  const auto put = [&](const float* values, int64_t count, int64_t to, int64_t to_step,
                       int64_t scale) {
    if (layout.quantised) return store_q8_0(values, count, page + to, to_step, page + scale);
    return layout.element_bytes == 2 ? store_f16(values, count, page + to, to_step)
                                     : store_f32(values, count, page + to, to_step);
  };
  bool finite = true;
  for (int64_t s = slot; s < slot + n; s++, k += step, v += step)
    for (int64_t i = 0; i < layout.head_dim; i += kCacheBlock) {
      const int64_t count = std::min(kCacheBlock, layout.head_dim - i), block = i / kCacheBlock;
      finite &= put(k + i, count, layout.key(head, i, s), kPagePositions * layout.element_bytes,
                    layout.key_scale(head, block, s));
      finite &= put(v + i, count, layout.value(head, i, s), layout.element_bytes,
                    layout.value_scale(head, block, s));
    }
  return finite;
}

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
