// Elementary functions in the one form that every target computes: polynomials with explicit fused
// multiply-adds, never libm. These scalars are the definition; SIMD code repeats them lane by lane.
// Thread rule: pure functions; any thread.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace meadow::kernels {

// e^x = 2^n · e^r with n = round(x / ln 2), r = x - n ln 2 in two steps, and
// e^r = 1 + (r + r² P(r)), P of degree 5 (coefficients of Cephes' expf), within 1.1 ulp.
struct ExpConstants {
  static constexpr float kLowest = -87.3f;   // below: 0, so that no result is subnormal
  static constexpr float kHighest = 88.72f;  // above: infinity
  static constexpr float kLog2E = 1.44269504088896341f;
  static constexpr float kLn2High = 0.693359375f;  // few bits: n · kLn2High is exact
  static constexpr float kLn2Low = -2.12194440e-4f;
  static constexpr float kP[6] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                  4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
};

// Error at most 1.1 ulp; exp(0) is 1; 0 below -87.3, infinity above 88.72.
inline float exp_f32(float x) {
  using C = ExpConstants;
  if (x < C::kLowest) return 0.0f;
  if (x > C::kHighest) return std::numeric_limits<float>::infinity();
  const float n = std::nearbyint(x * C::kLog2E);
  float r = std::fma(n, -C::kLn2High, x);
  r = std::fma(n, -C::kLn2Low, r);
  float p = C::kP[0];
  for (int i = 1; i < 6; i++) p = std::fma(p, r, C::kP[i]);
  const float e = std::fma(p, r * r, r) + 1.0f;
  // 2^128 is no float: multiply by two halves of the power, both exact.
  const int32_t power = static_cast<int32_t>(n), half = power >> 1;
  const float first = std::bit_cast<float>((half + 127) << 23);
  const float second = std::bit_cast<float>((power - half + 127) << 23);
  return e * first * second;
}

// x / (1 + e^-x).
inline float silu_f32(float x) { return x / (1.0f + exp_f32(-x)); }

struct SinCos {
  float sin, cos;
};

// Sine and cosine of an angle in radians, |angle| at most 2^20: reduced and evaluated in f64,
// rounded once. Taylor series on [-π/4, π/4] up to r^17 and r^16 (remainders below 1e-16).
inline SinCos sin_cos_f32(float angle) {
  constexpr double kTwoOverPi = 0.63661977236758134308;
  constexpr double kHalfPiHigh = 1.5707963267948966, kHalfPiLow = 6.123233995736766e-17;
  const double a = angle;
  const double n = std::nearbyint(a * kTwoOverPi);
  double r = std::fma(n, -kHalfPiHigh, a);
  r = std::fma(n, -kHalfPiLow, r);
  const double r2 = r * r;
  // 1/17!, 1/15!, … 1/3! and 1/16!, 1/14!, … 1/2! with alternating signs.
  constexpr double kSin[8] = {
      1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
      1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
  constexpr double kCos[8] = {
      1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
      1.0 / 40320.0,          -1.0 / 720.0,         1.0 / 24.0,        -1.0 / 2.0};
  double s = kSin[0], c = kCos[0];
  for (int i = 1; i < 8; i++) {
    s = std::fma(s, r2, kSin[i]);
    c = std::fma(c, r2, kCos[i]);
  }
  s = std::fma(s * r2, r, r);
  c = std::fma(c, r2, 1.0);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {static_cast<float>(s), static_cast<float>(c)};
    case 1:
      return {static_cast<float>(c), static_cast<float>(-s)};
    case 2:
      return {static_cast<float>(-s), static_cast<float>(-c)};
    default:
      return {static_cast<float>(-c), static_cast<float>(s)};
  }
}

// The float rule's last step: 8 chain sums become one by halving, c[i] + c[i + L/2] for L = 8,
// 4, 2.
inline float merge_chains(const float c[8]) {
  return ((c[0] + c[4]) + (c[2] + c[6])) + ((c[1] + c[5]) + (c[3] + c[7]));
}

}  // namespace meadow::kernels
