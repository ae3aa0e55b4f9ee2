#include "compute/cpu_ops.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "base/rng.h"
#include "kernels/dequantise.h"
#include "kernels/reference.h"

namespace meadow::compute {
namespace {

std::vector<float> random_values(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = static_cast<float>(2 * rng.uniform() - 1);
  return out;
}

ByteView bytes_of(const std::vector<float>& v) {
  return {reinterpret_cast<const uint8_t*>(v.data()), v.size() * sizeof(float)};
}

std::vector<float> read(CpuOps& ops, Tensor t) {
  std::vector<float> out(static_cast<size_t>(t.d * t.n));
  const auto ok = ops.read(t, 0, out);
  EXPECT_TRUE(ok) << ok.error().text();
  return out;
}

Tensor put(CpuOps& ops, int64_t d, int64_t n, const std::vector<float>& values) {
  const Tensor t = ops.make(d, n);
  ops.write(t, 0, values);
  return t;
}

TEST(CpuOps, ChecksMatrices) {
  CpuOps ops(1);
  auto values = random_values(12, 1);
  ASSERT_TRUE(ops.matrix("w", DType::kF32, bytes_of(values), 4, 3));
  const auto code = [&](DType type, ByteView bytes, int64_t k, int64_t m) {
    const auto w = ops.matrix("w", type, bytes, k, m);
    return w ? Code::kInternal : w.error().code;
  };
  EXPECT_EQ(code(DType::kF32, bytes_of(values), 4, 2), Code::kCorrupt);
  EXPECT_EQ(code(DType::kF32, bytes_of(values).first(47), 4, 3), Code::kCorrupt);
  EXPECT_EQ(code(DType::kF32, {}, 4, 0), Code::kCorrupt);
  EXPECT_EQ(code(DType::kF32, bytes_of(values), 4, INT64_MAX), Code::kCorrupt);
  EXPECT_EQ(code(DType::kQ4_0, Bytes(18), 33, 1), Code::kCorrupt);
  EXPECT_EQ(code(DType::kQ4_0, Bytes(18), 32, 1), Code::kInternal);
  values[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(code(DType::kF32, bytes_of(values), 4, 3), Code::kCorrupt);
  EXPECT_FALSE(ops.vector("v", values));
}

TEST(CpuOps, OperationsAreThoseOfTheReference) {
  constexpr int64_t kK = 40, kM = 24, kN = 5;
  CpuOps ops(2);
  const auto w_values = random_values(kK * kM, 1), x_values = random_values(kK * kN, 2),
             bias = random_values(kM, 3), norm = random_values(kM, 4);
  const Weight w = *ops.matrix("w", DType::kF32, bytes_of(w_values), kK, kM);
  const Weight b = *ops.vector("b", bias), g = *ops.vector("g", norm);
  const kernels::Matrix matrix{DType::kF32, bytes_of(w_values).data(), kK, kM};

  const Tensor x = put(ops, kK, kN, x_values), y = ops.make(kM, kN), z = ops.make(kM, kN);
  std::vector<float> expected(kM * kN), other(kM * kN);
  ops.matmul(w, x, y);
  kernels::reference::matmul(matrix, x_values.data(), kN, expected.data());
  EXPECT_EQ(read(ops, y), expected);
  ops.add_bias(y, b);
  kernels::reference::add_rows(expected.data(), bias.data(), kM, kN);
  EXPECT_EQ(read(ops, y), expected);
  ops.rms_norm(y, g, 1e-5f, z);
  kernels::reference::rms_norm(expected.data(), norm.data(), 1e-5f, kM, kN, other.data());
  EXPECT_EQ(read(ops, z), other);
  ops.add(y, z, y);
  kernels::reference::add(expected.data(), other.data(), kM * kN, expected.data());
  EXPECT_EQ(read(ops, y), expected);
  ops.silu_mul(y, z, y);
  kernels::reference::silu_mul(expected.data(), other.data(), kM * kN, expected.data());
  EXPECT_EQ(read(ops, y), expected);
}

TEST(CpuOps, AGroupIsItsProductsOneByOne) {
  CpuOps ops(2);
  const auto one = random_values(16 * 5, 1), two = random_values(16 * 37, 2);
  const Weight weights[] = {*ops.matrix("a", DType::kF32, bytes_of(one), 16, 5),
                            *ops.matrix("b", DType::kF32, bytes_of(two), 16, 37)};
  const Tensor x = put(ops, 16, 3, random_values(48, 3));
  const Tensor together[] = {ops.make(5, 3), ops.make(37, 3)};
  ops.matmul_group(weights, x, together);
  for (size_t i = 0; i < 2; i++) {
    const Tensor alone = ops.make(weights[i].m, 3);
    ops.matmul(weights[i], x, alone);
    EXPECT_EQ(read(ops, together[i]), read(ops, alone));
  }
}

// Wide enough that the columns are spread over the threads.
TEST(CpuOps, ManyColumns) {
  constexpr int64_t kD = 96, kN = 301;
  CpuOps ops(3);
  const auto x_values = random_values(kD * kN, 1), y_values = random_values(kD * kN, 2),
             bias = random_values(kD, 3), norm = random_values(kD / 3, 4);
  const Weight b = *ops.vector("b", bias), g = *ops.vector("g", norm);
  const Tensor x = put(ops, kD, kN, x_values), y = put(ops, kD, kN, y_values);
  std::vector<float> expected = x_values;
  ops.add_bias(x, b);
  kernels::reference::add_rows(expected.data(), bias.data(), kD, kN);
  ops.add(x, y, x);
  kernels::reference::add(expected.data(), y_values.data(), kD * kN, expected.data());
  ops.rms_norm(x, g, 1e-5f, x);
  kernels::reference::rms_norm(expected.data(), norm.data(), 1e-5f, kD / 3, 3 * kN,
                               expected.data());
  ops.silu_mul(x, y, x);
  kernels::reference::silu_mul(expected.data(), y_values.data(), kD * kN, expected.data());
  EXPECT_EQ(read(ops, x), expected);
}

TEST(CpuOps, TheEarliestValueThatDoesNotFitIsTold) {
  CpuOps ops(3);
  const CacheShape shape{DType::kF16, 64, 2};
  std::vector<Page> pages;
  for (int i = 0; i < 4; i++) pages.push_back(*ops.new_page(shape));
  auto values = random_values(128 * 200, 1);
  for (int64_t position : {70, 71, 130, 199}) values[static_cast<size_t>(128 * position)] = 1e6f;
  for (int round = 0; round < 5; round++) {
    ops.reset();
    const Tensor k = put(ops, 128, 200, values);
    ops.store(shape, std::vector<Part>{{200, 0, pages}}, k, k);
    const auto failed = ops.check(0);
    ASSERT_FALSE(failed);
    EXPECT_TRUE(failed.error().message.starts_with("position 70,")) << failed.error().message;
  }
  for (Page page : pages) ops.free_page(page);
}

TEST(CpuOps, NormOfHeads) {
  CpuOps ops(1);
  const auto values = random_values(3 * 8 * 2, 1), norm = random_values(8, 2);
  const Weight g = *ops.vector("g", norm);
  const Tensor x = put(ops, 24, 2, values);
  ops.rms_norm(x, g, 1e-6f, x);
  std::vector<float> expected(values.size());
  kernels::reference::rms_norm(values.data(), norm.data(), 1e-6f, 8, 6, expected.data());
  EXPECT_EQ(read(ops, x), expected);
}

TEST(CpuOps, RowsOfATable) {
  CpuOps ops(1);
  Bytes table(3 * 34);
  Rng(5).fill(table);
  for (size_t row = 0; row < 3; row++) table[row * 34 + 1] = 0x20;  // a small finite scale
  const Weight w = *ops.matrix("t", DType::kQ8_0, table, 32, 3);
  const Tensor out = ops.make(32, 2);
  ops.get_rows(w, std::vector<int32_t>{2, 0}, out);
  std::vector<float> expected(64);
  kernels::dequantise_row(DType::kQ8_0, table.data() + 68, 32, expected.data());
  kernels::dequantise_row(DType::kQ8_0, table.data(), 32, expected.data() + 32);
  EXPECT_EQ(read(ops, out), expected);
}

// The table of sines is kept between blocks; a new place or width must make a new one.
TEST(CpuOps, RopeFollowsThePosition) {
  CpuOps ops(1);
  const std::vector<float> frequencies = {1.0f, 0.1f};
  const Rope rope{4, 4, RopeStyle::kHalves, *ops.vector("f", frequencies)};
  for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 3}, {3, 3}, {3, 1}, {0, 1}}) {
    const auto values = random_values(8 * n, static_cast<uint64_t>(first + n));
    auto expected = values;
    kernels::reference::rope(expected.data(), 4, 2, kernels::RopeTable(first, n, frequencies),
                             kernels::RopeStyle::kHalves);
    const Tensor x = put(ops, 8, n, values);
    ops.rope(x, rope, std::vector<Part>{{n, first, {}}});
    EXPECT_EQ(read(ops, x), expected);
  }
}

TEST(CpuOps, EveryColumnTurnsByItsOwnPosition) {
  CpuOps ops(1);
  const std::vector<float> frequencies = {1.0f, 0.1f};
  const Rope rope{4, 4, RopeStyle::kHalves, *ops.vector("f", frequencies)};
  const auto values = random_values(4 * 4, 1);
  const std::vector<Part> parts = {{1, 700, {}}, {2, 3, {}}, {1, 0, {}}};
  const Tensor x = put(ops, 4, 4, values);
  ops.rope(x, rope, parts);
  auto expected = values;
  int64_t column = 0;
  for (const Part& part : parts) {
    kernels::reference::rope(expected.data() + 4 * column, 4, 1,
                             kernels::RopeTable(part.first_position, part.columns, frequencies),
                             kernels::RopeStyle::kHalves);
    column += part.columns;
  }
  EXPECT_EQ(read(ops, x), expected);
}

TEST(CpuOps, AFailureIsItsPartsAlone) {
  CpuOps ops(1);
  const CacheShape shape{DType::kF16, 8, 1};
  const auto one = ops.new_page(shape), two = ops.new_page(shape);
  ASSERT_TRUE(one && two);
  const Page first[] = {*one}, second[] = {*two};
  const std::vector<Part> parts = {{1, 0, first}, {1, 0, second}};
  auto values = random_values(16, 1);
  values[3] = 1e6f;  // beyond f16
  const Tensor k = put(ops, 8, 2, values), q = put(ops, 8, 2, random_values(16, 2)),
               out = ops.make(8, 2);
  ops.store(shape, parts, k, k);
  ops.attention(shape, parts, q, 1, 1.0f, out);
  const auto failed = ops.check(0);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(ops.check(1));
  std::vector<float> attended(8);
  ASSERT_TRUE(ops.read(out, 1, attended));
  // one position: attention gives its value, rounded to the cache
  for (size_t i = 0; i < 8; i++) EXPECT_NEAR(attended[i], values[8 + i], 1e-3f);
  ops.reset();
  EXPECT_TRUE(ops.check(0));
  ops.free_page(*one);
  ops.free_page(*two);
}

}  // namespace
}  // namespace meadow::compute
