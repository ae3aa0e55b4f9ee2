#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace meadow {
namespace {

Result<std::unique_ptr<int>> half(int x) {
  if (x % 2 != 0) return fail(Code::kInvalidArgument, "expected an even number, got {}", x);
  return std::make_unique<int>(x / 2);
}
Result<int> quarter(int x) {
  MEADOW_TRY(auto h, half(x));
  MEADOW_TRY(auto q, half(*h));
  return *q;
}
Result<void> check_quarter(int x) {
  MEADOW_TRY_VOID(quarter(x));
  return {};
}

TEST(Result, TryPassesValuesAndErrors) {
  EXPECT_EQ(quarter(8).value(), 2);
  const auto bad = quarter(6);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kInvalidArgument);
  EXPECT_EQ(bad.error().within("here").text(),
            "invalid-argument: here: expected an even number, got 3");
  EXPECT_TRUE(check_quarter(4));
  EXPECT_FALSE(check_quarter(5));
}

}  // namespace
}  // namespace meadow
