// The simple quantisers of format/quantise.h against the exact values that the kernels read: what
// the tests' models hold is what was asked for, in every type's layout.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "format/quantise.h"
#include "kernels/dequantise.h"
#include "kernels/matmul.h"

namespace meadow::model {
namespace {

constexpr int64_t kCount = 2048;

std::vector<float> through(DType type, const std::vector<float>& values) {
  const Bytes bytes = format::quantise(type, values);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), row_bytes(type, kCount));
  EXPECT_TRUE(kernels::check_weights({type, bytes.data(), kCount, 1}));
  std::vector<float> out(values.size());
  kernels::dequantise_row(type, bytes.data(), kCount, out.data());
  return out;
}

// Root of the mean square of the error over that of uniform values: a step over the square root of
// 12, a little more for scales that are rounded or chosen plainly.
double allowed(DType type) {
  switch (type) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 3e-4;
    case DType::kBF16:
      return 2e-3;
    case DType::kQ8_0:
      return 0.005;
    case DType::kQ6_K:
      return 0.02;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      return 0.04;
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ4_K:
      return 0.08;
    case DType::kIQ4_NL:
      return 0.1;
    case DType::kMXFP4:
      return 0.15;
    case DType::kQ3_K:
      return 0.17;
    case DType::kQ2_K:
      return 0.35;
  }
  return 0;
}

TEST(QuantisedTypes, AreCloseToTheValuesAskedFor) {
  Rng rng(4);
  for (const DTypeInfo& type : kDTypes)
    for (double shift : {0.0, 0.3, -0.3}) {  // one-sided blocks too
      std::vector<float> values(kCount);
      for (size_t i = 0; i < values.size(); i++)  // parts of different sizes
        values[i] =
            static_cast<float>((2 * rng.uniform() - 1 + shift) * (i / 32 % 3 == 0 ? 0.1 : 0.7));
      const auto got = through(type.type, values);
      double error = 0, size = 0;
      for (size_t i = 0; i < values.size(); i++) {
        error += std::pow(got[i] - values[i], 2);
        size += std::pow(values[i], 2);
      }
      EXPECT_LE(std::sqrt(error / size), allowed(type.type)) << type.name << " " << shift;
    }
}

TEST(QuantisedTypes, AreFiniteForEveryKindOfBlock) {
  for (const DTypeInfo& type : kDTypes)
    for (float value : {0.0f, -0.0f, 1e-40f, -1e-9f, 3.0f, -3.0f, 5e4f}) {
      const auto got = through(type.type, std::vector<float>(kCount, value));
      for (float v : got) ASSERT_NEAR(v, value, std::fabs(value) * 0.35 + 1e-4) << type.name;
    }
}

}  // namespace
}  // namespace meadow::model
