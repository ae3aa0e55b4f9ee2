#include "kernels/target.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace meadow::kernels {
namespace {

TEST(Target, ScalarIsAlwaysThereAndTheBestIsLast) {
  const auto all = runnable_targets();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front(), Target::kScalar);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  std::string names;
  for (Target t : all) names += std::string(name(t)) + " ";
  RecordProperty("runnable", names);
  std::printf("kernel targets that run here: %s\n", names.c_str());
}

TEST(Target, ForcingActsAndRefusesWhatCannotRun) {
  const Target before = active_target();
  for (Target t : runnable_targets()) {
    ASSERT_TRUE(force_target(t));
    EXPECT_EQ(active_target(), t);
  }
#if defined(__x86_64__)
  const auto refused = force_target(Target::kNeon);
#else
  const auto refused = force_target(Target::kAvx2);
#endif
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_TRUE(force_target(before));
}

TEST(Target, AnUnknownChoiceIsNamed) {
  const char* before = std::getenv("MEADOW_CPU");
  const std::string kept = before == nullptr ? "" : before;
  setenv("MEADOW_CPU", "abacus", 1);
  const auto result = check_target_choice();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  EXPECT_NE(result.error().message.find("abacus"), std::string::npos);
  EXPECT_NE(result.error().message.find("scalar"), std::string::npos);
  setenv("MEADOW_CPU", "scalar", 1);
  EXPECT_TRUE(check_target_choice());
  before == nullptr ? unsetenv("MEADOW_CPU") : setenv("MEADOW_CPU", kept.c_str(), 1);
}

}  // namespace
}  // namespace meadow::kernels
