#include <cmath>

#include "kernels/math.h"
#include "kernels/reference.h"

namespace meadow::kernels::reference {

void rms_norm(const float* x, const float* weight, float eps, int64_t d, int64_t n, float* y) {
  for (int64_t t = 0; t < n; t++, x += d, y += d) {
    const float mean = dot(x, x, d) / static_cast<float>(d);
    const float r = 1.0f / std::sqrt(mean + eps);
    for (int64_t i = 0; i < d; i++) y[i] = x[i] * r * weight[i];
  }
}

void silu_mul(const float* gate, const float* up, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i++) out[i] = silu_f32(gate[i]) * up[i];
}

void add(const float* a, const float* b, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i++) out[i] = a[i] + b[i];
}

void add_rows(float* x, const float* bias, int64_t d, int64_t n) {
  for (int64_t t = 0; t < n; t++) add(x + t * d, bias, d, x + t * d);
}

void rope(float* x, int64_t head_dim, int64_t n_head, const RopeTable& table, RopeStyle style) {
  const int64_t half = table.n_rot() / 2;
  for (int64_t t = 0; t < table.positions(); t++)
    for (int64_t h = 0; h < n_head; h++) {
      float* head = x + (t * n_head + h) * head_dim;
      for (int64_t i = 0; i < half; i++) {
        float& a = head[style == RopeStyle::kNeighbours ? 2 * i : i];
        float& b = head[style == RopeStyle::kNeighbours ? 2 * i + 1 : i + half];
        const float c = table.cos(t)[i], s = table.sin(t)[i], old_a = a;
        a = std::fma(old_a, c, -(b * s));
        b = std::fma(old_a, s, b * c);
      }
    }
}

}  // namespace meadow::kernels::reference
