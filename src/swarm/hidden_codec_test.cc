#include "swarm/hidden_codec.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "base/rng.h"

namespace meadow::swarm {
namespace {

std::vector<float> random_values(size_t n, Rng& rng, double spread) {
  std::vector<float> out(n);
  for (float& v : out)
    v = static_cast<float>((rng.uniform() - 0.5) * std::exp2(spread * (rng.uniform() - 0.5)));
  return out;
}

TEST(HiddenCodec, F32IsExactF16RoundsAndBothRefuseWhatIsNotFinite) {
  const std::vector<float> x{0.0f, -1.5f, 3.14159274f, 65504.0f, 1e-8f};
  EXPECT_EQ(decode(encode(x, Codec::kF32).value(), Codec::kF32).value(), x);
  const auto half = decode(encode(x, Codec::kF16).value(), Codec::kF16).value();
  EXPECT_EQ(half, (std::vector<float>{0.0f, -1.5f, 3.140625f, 65504.0f, 0.0f}));
  EXPECT_FALSE(encode(std::vector<float>{70000.0f}, Codec::kF16));
  EXPECT_FALSE(encode(std::vector<float>{INFINITY}, Codec::kF32));
  EXPECT_FALSE(decode(Bytes{0, 0, 0x80, 0x7f}, Codec::kF32));
  EXPECT_FALSE(decode(Bytes{0, 0x7c}, Codec::kF16));
  EXPECT_FALSE(decode(Bytes(3), Codec::kF16));
}

// The definition, in other words: the scale is the least bfloat16 >= largest / 127, the integer is
// the nearest to value / scale, ties to even.
TEST(HiddenCodec, Q8IsWhatItsDefinitionSays) {
  const std::vector<float> x{127.0f, -127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 0.0f};
  const Bytes bytes = encode(x, Codec::kQ8).value();
  EXPECT_EQ(bytes, (Bytes{0x80, 0x3f, 127, 0x81, 0, 2, 2, 0, 0xfe, 0}));  // scale 1.0
  EXPECT_EQ(decode(bytes, Codec::kQ8).value(), (std::vector<float>{127, -127, 0, 2, 2, 0, -2, 0}));
  // 100 / 127 = 0.787401...: bfloat16 below 0.78515625, above 0.7890625
  const auto rounded = encode(std::vector<float>{100.0f, 50.0f}, Codec::kQ8).value();
  EXPECT_EQ(rounded, (Bytes{0x4a, 0x3f, 127, 63}));
}

TEST(HiddenCodec, Q8ErrorsAreHalfAStepOfTheirBlock) {
  Rng rng(3);
  for (const int64_t width : {1, 4, 31, 32, 33, 64, 100, 576}) {
    const auto x = random_values(static_cast<size_t>(width * 5), rng, 20);
    const Bytes bytes = encode(x, Codec::kQ8, width).value();
    ASSERT_EQ(static_cast<int64_t>(bytes.size()), 5 * bytes_per_position(width, Codec::kQ8));
    const auto y = decode(bytes, Codec::kQ8, width).value();
    ASSERT_EQ(y.size(), x.size());
    for (int64_t p = 0; p < 5; p++)
      for (int64_t i = 0; i < width; i += 32) {
        const auto begin = static_cast<size_t>(p * width + i);
        const auto end = static_cast<size_t>(p * width + std::min(width, i + 32));
        float most = 0;
        for (size_t k = begin; k < end; k++) most = std::max(most, std::fabs(x[k]));
        for (size_t k = begin; k < end; k++)
          ASSERT_LE(std::fabs(x[k] - y[k]), most / 127 * 0.5f * 1.009f) << width << " " << k;
      }
    // Positions stand alone: a part of them is the same part of the bytes.
    const auto alone =
        encode(std::span(x).subspan(static_cast<size_t>(2 * width), static_cast<size_t>(width)),
               Codec::kQ8, width)
            .value();
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                           bytes.begin() + 2 * bytes_per_position(width, Codec::kQ8)));
  }
}

TEST(HiddenCodec, Q8AtTheEndsOfItsRange) {
  for (const float v : {3.3e38f, 1e30f, 1e-30f, FLT_MIN * 128}) {
    const auto back = decode(encode(std::vector<float>{v, -v}, Codec::kQ8).value(), Codec::kQ8);
    ASSERT_TRUE(back) << v;
    EXPECT_NEAR((*back)[0] / v, 1, 0.005) << v;
  }
  // what is too small for a normal scale is nothing
  EXPECT_EQ(encode(std::vector<float>{FLT_MIN, 1e-42f}, Codec::kQ8).value(), Bytes(4));
  EXPECT_FALSE(encode(std::vector<float>{3.4e38f}, Codec::kQ8));
  EXPECT_FALSE(encode(std::vector<float>{INFINITY}, Codec::kQ8));
  EXPECT_FALSE(encode(std::vector<float>{NAN, 1.0f}, Codec::kQ8));
  EXPECT_TRUE(decode(Bytes{}, Codec::kQ8)->empty());
}

TEST(HiddenCodec, Q8RefusesWhatNobodyEncodes) {
  EXPECT_TRUE(decode(Bytes{0x80, 0x3f, 5}, Codec::kQ8));
  for (const Bytes& bad : {Bytes{0x80, 0x7f, 5},     // scale infinite
                           Bytes{0xc0, 0x7f, 5},     // not a number
                           Bytes{0x7f, 0x7f, 5},     // too large
                           Bytes{0x80, 0xbf, 5},     // negative
                           Bytes{0x01, 0x00, 5},     // subnormal
                           Bytes{0x00, 0x00, 5},     // a value without a scale
                           Bytes{0x80, 0x3f, 0x80},  // -128
                           Bytes{0x80, 0x3f}, Bytes{0x80}})
    EXPECT_FALSE(decode(bad, Codec::kQ8)) << bad.size();
  EXPECT_FALSE(decode(Bytes(35), Codec::kQ8));  // a scale with nothing behind it
  EXPECT_FALSE(decode(Bytes(34 * 3), Codec::kQ8, 33));
  EXPECT_FALSE(decode(Bytes(35 * 2), Codec::kQ8, 33));
  EXPECT_FALSE(encode(std::vector<float>(5), Codec::kQ8, 3));
}

}  // namespace
}  // namespace meadow::swarm
