// What rounding costs, by weight type, where activations have outliers: one channel in 500 is 60
// times larger than the others, as in real models.
//   bench_quantisation_error [COLUMNS ROWS TOKENS]      (2048 512 64)
// Prints the relative distance (L2) of a product from f64 sums: against the weights before they
// were quantised (all that is lost), and against the stored weights (what the activations lose).
//
// Beside ours, of the same weights and activations, what PETALS offers its servers:
//   LLM.int8  rows of weights and of activations as 8-bit integers, each row by its largest
//             magnitude; activations of columns where one exceeds 6 apart in f16, and the weights
//             they meet: kept in f16 (the paper), or widened from the 8 bits (bitsandbytes, where
//             the f16 weights are gone after loading)
//   NF4       blocks of 64 weights by their largest magnitude on the 16 values of that format;
//             weights and activations rounded to bf16
// Their sums are exact here (f64) and their results not rounded: the simulations flatter them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/half.h"
#include "base/rng.h"
#include "format/quantise.h"
#include "kernels/dequantise.h"
#include "kernels/matmul.h"

namespace meadow::bench {
namespace {

constexpr int64_t kOutlierEvery = 500;
constexpr float kOutlierFactor = 60;

struct Problem {
  int64_t k, m, n;
  std::vector<float> w;  // [k, m]
  std::vector<float> x;  // [k, n]
};

float normal(Rng& rng) {
  double sum = 0;
  for (int i = 0; i < 12; i++) sum += rng.uniform();
  return static_cast<float>(sum - 6);
}

Problem problem(int64_t k, int64_t m, int64_t n) {
  Problem p{k, m, n, {}, {}};
  Rng rng(1);
  const float scale = 1 / std::sqrt(static_cast<float>(k));
  for (int64_t i = 0; i < k * m; i++) p.w.push_back(normal(rng) * scale);
  for (int64_t i = 0; i < k * n; i++)
    p.x.push_back(normal(rng) * (i % k % kOutlierEvery == 7 ? kOutlierFactor : 1));
  return p;
}

// f64 [m, n]
std::vector<double> product(const Problem& p, const std::vector<float>& w,
                            const std::vector<float>& x) {
  std::vector<double> y(static_cast<size_t>(p.m * p.n));
  for (int64_t t = 0; t < p.n; t++)
    for (int64_t r = 0; r < p.m; r++) {
      double sum = 0;
      for (int64_t i = 0; i < p.k; i++)
        sum += static_cast<double>(w[static_cast<size_t>(r * p.k + i)]) *
               x[static_cast<size_t>(t * p.k + i)];
      y[static_cast<size_t>(t * p.m + r)] = sum;
    }
  return y;
}

template <class A, class B>
double distance(const std::vector<A>& got, const std::vector<B>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < got.size(); i++) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error += d * d;
    norm += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return std::sqrt(error / norm);
}

void print_row(std::string_view name, double bits, double all, double activations) {
  fmt::print("| {} | {:.2f} | {:.2e} | {:.2e} |\n", name, bits, all, activations);
}

void ours(const Problem& p, DType type, const std::vector<double>& exact) {
  const Bytes bytes = format::quantise(type, p.w);
  std::vector<float> stored(p.w.size()), y(exact.size());
  kernels::dequantise_row(type, bytes.data(), p.k * p.m, stored.data());
  ThreadPool pool(1);
  kernels::Scratch scratch;
  kernels::matmul({type, bytes.data(), p.k, p.m}, p.x.data(), p.n, y.data(), pool, scratch);
  print_row(info(type).name,
            8.0 * static_cast<double>(bytes.size()) / static_cast<double>(p.w.size()),
            distance(y, exact), distance(y, product(p, stored, p.x)));
}

float in_half(float value) { return half_to_float(float_to_half(value)); }

float in_bfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

// `values` [k, rows] as 8-bit integers times a scale per row, but the columns of `apart` in f16.
std::vector<float> rows_in_8_bits(const std::vector<float>& values, int64_t k,
                                  const std::vector<bool>& apart) {
  std::vector<float> out(values.size());
  for (size_t row = 0; row < values.size(); row += static_cast<size_t>(k)) {
    float largest = 0;
    for (size_t i = 0; i < apart.size(); i++)
      if (!apart[i]) largest = std::max(largest, std::fabs(values[row + i]));
    const float scale = largest / 127;
    for (size_t i = 0; i < apart.size(); i++)
      out[row + i] =
          apart[i] ? in_half(values[row + i]) : std::nearbyint(values[row + i] / scale) * scale;
  }
  return out;
}

void llm_int8(const Problem& p, const std::vector<double>& exact, bool keeps_weights) {
  std::vector<bool> apart(static_cast<size_t>(p.k));
  for (size_t i = 0; i < p.x.size(); i++)
    if (std::fabs(p.x[i]) > 6) apart[i % apart.size()] = true;
  const std::vector<bool> none(apart.size());
  const auto w = rows_in_8_bits(p.w, p.k, keeps_weights ? apart : none);
  const auto x = rows_in_8_bits(p.x, p.k, apart);
  const auto y = product(p, w, x);
  const auto columns = static_cast<double>(std::count(apart.begin(), apart.end(), true));
  const double share = columns / static_cast<double>(p.k);
  print_row(fmt::format("LLM.int8, {:.2f} % of columns apart, their weights {}", 100 * share,
                        keeps_weights ? "in f16" : "from 8 bits"),
            8 + (keeps_weights ? 8 * share : 0), distance(y, exact),
            distance(y, product(p, w, p.x)));
}

void nf4(const Problem& p, const std::vector<double>& exact) {
  constexpr float kValues[16] = {-1.0f,        -0.69619280f, -0.52507305f, -0.39491749f,
                                 -0.28444138f, -0.18477343f, -0.09105004f, 0.0f,
                                 0.07958030f,  0.16093020f,  0.24611230f,  0.33791524f,
                                 0.44070983f,  0.56261700f,  0.72295684f,  1.0f};
  std::vector<float> stored(p.w.size()), w(p.w.size()), x(p.x.size());
  for (size_t at = 0; at < p.w.size(); at += 64) {
    float largest = 0;
    for (size_t i = at; i < at + 64; i++) largest = std::max(largest, std::fabs(p.w[i]));
    for (size_t i = at; i < at + 64; i++) {
      const float want = p.w[i] / largest;
      const float best = *std::min_element(
          std::begin(kValues), std::end(kValues),
          [want](float a, float b) { return std::fabs(a - want) < std::fabs(b - want); });
      stored[i] = best * largest;
      w[i] = in_bfloat(stored[i]);
    }
  }
  std::transform(p.x.begin(), p.x.end(), x.begin(), in_bfloat);
  const auto y = product(p, w, x);
  print_row("NF4, bf16", 4.5, distance(y, exact), distance(y, product(p, stored, p.x)));
}

int run(int argc, char** argv) {
  const auto argument = [&](int i, int64_t otherwise) {
    return argc > i ? std::atoll(argv[i]) : otherwise;
  };
  const int64_t k = argument(1, 2048), m = argument(2, 512), n = argument(3, 64);
  if (argc > 4 || k < 256 || k % 256 != 0 || m < 1 || n < 1) {
    fmt::print(
        stderr,
        "usage: bench_quantisation_error [COLUMNS ROWS TOKENS], columns a multiple of 256\n");
    return 2;
  }
  const Problem p = problem(k, m, n);
  const auto exact = product(p, p.w, p.x);
  fmt::print(
      "{} columns, {} rows, {} tokens; one channel in {} is {} times larger\n\n"
      "| weights | bits each | against the weights before quantising | against the stored "
      "weights |\n|---|---|---|---|\n",
      k, m, n, kOutlierEvery, kOutlierFactor);
  for (const DTypeInfo& type : kDTypes) ours(p, type.type, exact);
  llm_int8(p, exact, true);
  llm_int8(p, exact, false);
  nf4(p, exact);
  return 0;
}

}  // namespace
}  // namespace meadow::bench

int main(int argc, char** argv) { return meadow::bench::run(argc, argv); }
