#include "compute/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "base/rng.h"

namespace meadow::compute {
namespace {

std::vector<float> random_values(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(count);
  for (float& v : out)
    v = static_cast<float>((rng.uniform() - 0.5) *
                           std::pow(2.0, static_cast<double>(rng.below(20)) - 8));
  return out;
}

TEST(Codec, F32IsExact) {
  const auto values = random_values(1000, 1);
  const auto bytes = encode(Codec::kF32, values);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->size(), 4000u);
  const auto back = decode(Codec::kF32, *bytes, 1000);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, values);
}

TEST(Codec, BytesAreLittleEndian) {
  EXPECT_EQ(*encode(Codec::kF32, std::vector<float>{1.0f}), (Bytes{0, 0, 0x80, 0x3f}));
  EXPECT_EQ(*encode(Codec::kF16, std::vector<float>{1.0f, -2.0f}), (Bytes{0, 0x3c, 0, 0xc0}));
}

TEST(Codec, F16RoundsToNearestEven) {
  const auto values = random_values(1000, 2);
  const auto bytes = encode(Codec::kF16, values);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->size(), 2000u);
  const auto back = decode(Codec::kF16, *bytes, 1000);
  ASSERT_TRUE(back);
  for (size_t i = 0; i < values.size(); i++)
    EXPECT_EQ((*back)[i], half_to_float(float_to_half(values[i])));
  // a second passage changes nothing
  EXPECT_EQ(*encode(Codec::kF16, *back), *bytes);
}

TEST(Codec, RefusesWhatDoesNotFit) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (Codec codec : {Codec::kF32, Codec::kF16})
    for (float bad : {inf, -inf, nan}) {
      const auto r = encode(codec, std::vector<float>{0, bad});
      ASSERT_FALSE(r);
      EXPECT_EQ(r.error().code, Code::kInvalidArgument);
    }
  EXPECT_TRUE(encode(Codec::kF16, std::vector<float>{65519.0f}));
  EXPECT_FALSE(encode(Codec::kF16, std::vector<float>{65520.0f}));
  EXPECT_FALSE(encode(Codec::kF16, std::vector<float>{-1e6f}));
  EXPECT_TRUE(encode(Codec::kF32, std::vector<float>{65520.0f}));
}

TEST(Codec, DecodeChecksSizeAndValues) {
  const Bytes four(4);
  EXPECT_TRUE(decode(Codec::kF32, four, 1));
  EXPECT_TRUE(decode(Codec::kF16, four, 2));
  EXPECT_FALSE(decode(Codec::kF32, four, 2));
  EXPECT_FALSE(decode(Codec::kF16, four, 1));
  EXPECT_FALSE(decode(Codec::kF32, Bytes(5), 1));
  EXPECT_FALSE(decode(Codec::kF32, four, -1));
  EXPECT_FALSE(decode(Codec::kF32, four, std::numeric_limits<int64_t>::max()));
  EXPECT_TRUE(decode(Codec::kF32, {}, 0));
  EXPECT_FALSE(decode(Codec::kF32, Bytes{0, 0, 0x80, 0x7f}, 1));  // inf
  EXPECT_FALSE(decode(Codec::kF16, Bytes{0, 0x7e}, 1));           // NaN
}

TEST(Codec, Names) {
  EXPECT_EQ(codec_named("f32"), Codec::kF32);
  EXPECT_EQ(codec_named("f16"), Codec::kF16);
  EXPECT_EQ(codec_named("q8"), std::nullopt);
}

}  // namespace
}  // namespace meadow::compute
