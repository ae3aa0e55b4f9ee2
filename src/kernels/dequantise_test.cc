// Against the values of the `gguf` Python package (tools/golden/dequantise.py).
#include "kernels/dequantise.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/bytes.h"
#include "kernels/each_target.h"
#include "kernels/reference.h"
#include "kernels/test_data.h"

namespace meadow::kernels {
namespace {

TEST(Dequantise, EqualsTheGgufPackage) {
  const std::string path = std::string(MEADOW_SOURCE_DIR) + "/tests/golden/data/dequantise.txt";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  int types = 0;
  for (std::string line; std::getline(file, line); types++) {
    std::istringstream fields(line);
    std::string type_name, stored_hex, values_hex;
    fields >> type_name >> stored_hex >> values_hex;
    SCOPED_TRACE(type_name);
    const auto* type = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                    [&](const DTypeInfo& t) { return t.name == type_name; });
    ASSERT_NE(type, std::end(kDTypes));
    const auto stored = from_hex(stored_hex), values = from_hex(values_hex);
    ASSERT_TRUE(stored && values);
    std::vector<float> want(values->size() / 4);
    std::memcpy(want.data(), values->data(), values->size());
    std::vector<float> got(want.size());
    const auto k = static_cast<int64_t>(want.size());
    ASSERT_EQ(static_cast<int64_t>(stored->size()), row_bytes(type->type, k));
    dequantise_row(type->type, stored->data(), k, got.data());
    EXPECT_EQ(test::difference(got, want), "");
  }
  EXPECT_EQ(types, static_cast<int>(std::size(kDTypes)));
}

TEST(Dequantise, EveryTargetGivesTheReferencesBits) {
  Rng rng(3);
  for (DType type : test::kAllTypes)
    for (test::Values values : test::kAllValues) {
      const int64_t unit = info(type).block_values, k = unit == 1 ? 77 : 3 * unit;
      SCOPED_TRACE(info(type).name);
      const auto w = test::weights(rng, type, k, 5, values);
      std::vector<float> want(static_cast<size_t>(k)), got(want.size());
      for (int64_t r = 0; r < 5; r++) {
        const uint8_t* row = w.bytes.data() + r * row_bytes(type, k);
        reference::dequantise_row(type, row, k, want.data());
        test::on_each_target([&] {
          dequantise_row(type, row, k, got.data());
          EXPECT_EQ(test::difference(got, want), "");
        });
      }
    }
}

}  // namespace
}  // namespace meadow::kernels
