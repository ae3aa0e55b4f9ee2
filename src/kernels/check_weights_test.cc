// The fast look of many threads finds what the slow one would, wherever it is.
#include <gtest/gtest.h>

#include "kernels/matmul.h"
#include "kernels/test_data.h"
#include "kernels/weight_block.h"

namespace meadow::kernels {
namespace {

using namespace test;

TEST(CheckWeights, OneBadScaleAnywhere) {
  Rng rng(8);
  ThreadPool pool(3);
  for (DType type : kAllTypes) {
    const DTypeInfo& t = info(type);
    // More than one chunk of the fast look.
    const int64_t k = 2304, m = 3 * (int64_t{1} << 18) / row_bytes(type, k);
    auto w = weights(rng, type, k, m, Values::kMixed);
    ASSERT_TRUE(check_weights(w.matrix, pool)) << t.name;
    const ScalePlaces places = scale_places(type);
    for (int round = 0; round < 8; round++) {
      const auto block =
          static_cast<int64_t>(rng.below(static_cast<uint64_t>(m * k / t.block_values)));
      const int place = std::max(round % 2 == 0 ? places.d : std::max(places.m, places.d), 0);
      uint8_t* at = w.bytes.data() + block * t.block_bytes + place;
      uint8_t before[4];
      const auto size = static_cast<size_t>(std::min<int64_t>(4, t.block_bytes - place));
      std::copy_n(at, size, before);
      if (type == DType::kMXFP4)
        at[0] = 255;
      else if (type == DType::kF32)
        at[2] = 0x81, at[3] = 0xff;  // NaN
      else if (type == DType::kBF16)
        at[0] = 0x80, at[1] = 0xff;  // minus infinity
      else
        at[0] = 1, at[1] = 0x7c;  // NaN
      const auto fast = check_weights(w.matrix, pool);
      ASSERT_FALSE(fast) << t.name << " block " << block;
      const int64_t value = block * t.block_values;
      EXPECT_NE(fast.error().message.find(fmt::format("row {}, column {}:", value / k, value % k)),
                std::string::npos)
          << fast.error().message;
      std::copy_n(before, size, at);
    }
    EXPECT_TRUE(check_weights(w.matrix, pool)) << t.name;
  }
}

}  // namespace
}  // namespace meadow::kernels
