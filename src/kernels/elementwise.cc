#include "kernels/elementwise.h"

#include <bit>
#include <numeric>

#include "base/check.h"
#include "kernels/float_environment.h"
#include "kernels/math.h"
#include "kernels/table.h"

namespace meadow::kernels {
namespace {

std::vector<int64_t> ascending(int64_t first, int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), first);
  return out;
}

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, int64_t d, int64_t n, float* y) {
  active_table().rms_norm(x, weight, eps, d, n, y);
}

void silu_mul(const float* gate, const float* up, int64_t count, float* out) {
  active_table().silu_mul(gate, up, count, out);
}

void add(const float* a, const float* b, int64_t count, float* out) {
  active_table().add(a, b, count, out);
}

void add_rows(float* x, const float* bias, int64_t d, int64_t n) {
  active_table().add_rows(x, bias, d, n);
}

RopeTable::RopeTable(int64_t first_position, int64_t n, std::span<const float> inv_freq)
    : RopeTable(ascending(first_position, n), inv_freq) {}

RopeTable::RopeTable(std::span<const int64_t> positions, std::span<const float> inv_freq)
    : n_(static_cast<int64_t>(positions.size())), half_(static_cast<int64_t>(inv_freq.size())) {
  use_ieee_arithmetic();
  values_.resize(static_cast<size_t>(2 * n_ * half_));
  for (int64_t t = 0; t < n_; t++) {
    const auto position = static_cast<float>(positions[static_cast<size_t>(t)]);
    float* row = values_.data() + 2 * t * half_;
    for (int64_t i = 0; i < half_; i++) {
      const SinCos turn = sin_cos_f32(position * inv_freq[static_cast<size_t>(i)]);
      row[i] = turn.cos;
      row[half_ + i] = turn.sin;
    }
  }
}

void rope(float* x, int64_t head_dim, int64_t n_head, const RopeTable& table, RopeStyle style) {
  MEADOW_CHECK(table.n_rot() <= head_dim);
  active_table().rope(x, head_dim, n_head, table, style);
}

void rope(float* x, int64_t head_dim, int64_t n_rot, int64_t n_head, int64_t n,
          int64_t first_position, const float* inv_freq, RopeStyle style) {
  rope(x, head_dim, n_head,
       RopeTable(first_position, n, {inv_freq, static_cast<size_t>(n_rot / 2)}), style);
}

bool all_finite(const float* x, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; i++)
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(x[i]) & kExponent) == kExponent);
  return bad == 0;
}

}  // namespace meadow::kernels
