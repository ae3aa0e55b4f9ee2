#include "model/rope.h"

#include <cmath>

namespace meadow::model {
namespace {

constexpr double kMaxAngle = 1 << 20;  // what kernels' sine and cosine take

double power(double x, int64_t n) {
  double out = 1;
  for (; n > 0; n >>= 1, x *= x)
    if (n & 1) out *= x;
  return out;
}

// base^(-1/n) for base >= 1, by bisection on x^n · base = 1.
double inverse_root(double base, int64_t n) {
  double low = 0, high = 1;
  for (int i = 0; i < 128; i++) {
    const double middle = low + (high - low) * 0.5;
    (power(middle, n) * base < 1 ? low : high) = middle;
  }
  return high;
}

}  // namespace

Result<std::vector<float>> inverse_frequencies(const Hyperparameters& h,
                                               std::span<const float> factors) {
  const int64_t half = h.n_rot / 2;
  const double ratio = inverse_root(h.rope_base, half);
  std::vector<float> out(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; i++) {
    const double factor = factors.empty() ? 1.0 : factors[static_cast<size_t>(i)];
    if (!(factor > 0) || !std::isfinite(factor))
      return fail(Code::kCorrupt, "rope_freqs.weight: value {} is {}; expected more than 0", i,
                  factor);
    const double frequency = power(ratio, i) / h.rope_scale / factor;
    if (frequency * static_cast<double>(h.n_ctx) > kMaxAngle)
      return fail(Code::kCorrupt, "rope: frequency {} of value {} is too high for {} positions",
                  frequency, i, h.n_ctx);
    out[static_cast<size_t>(i)] = static_cast<float>(frequency);
  }
  return out;
}

Result<compute::Weight> load_inverse_frequencies(Loader& loader, compute::Ops& ops,
                                                 const Hyperparameters& h) {
  std::vector<float> factors;
  loader.set_prefix("");
  if (loader.has("rope_freqs.weight")) {
    MEADOW_TRY(factors, loader.values("rope_freqs.weight", h.n_rot / 2));
  }
  MEADOW_TRY(std::vector<float> frequencies, inverse_frequencies(h, factors));
  return ops.vector("inverse frequencies", frequencies);
}

}  // namespace meadow::model
