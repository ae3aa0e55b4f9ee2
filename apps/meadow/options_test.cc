#include "meadow/options.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "meadow/exit_codes.h"

namespace meadow::apps {
namespace {

TEST(Options, Blocks) {
  const auto range = parse_blocks("3:17");
  ASSERT_TRUE(range);
  EXPECT_EQ(*range, (BlockRange{3, 17}));
  for (const char* bad : {"", ":", "3", "3:", ":4", "4:4", "5:4", "-1:4", "1:2:3", "a:b", "1:2x",
                          " 1:2", "1:99999999999"})
    EXPECT_EQ(parse_blocks(bad).error().code, Code::kInvalidArgument) << bad;
}

TEST(Options, IdentityPathIsOnePerAddress) {
  ::setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(identity_path("server", "[::1]:7101"), "/state/meadow/server----1--7101.key");
  EXPECT_NE(identity_path("server", "127.0.0.1:7101"), identity_path("server", "127.0.0.1:7102"));
  ::unsetenv("XDG_STATE_HOME");
  ::setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(identity_path("bootstrap", "h:1"),
            "/home/someone/.local/state/meadow/bootstrap-h-1.key");
}

TEST(Options, EveryErrorHasItsExitCode) {
  EXPECT_EQ(exit_code(Code::kInvalidArgument), 2);
  EXPECT_EQ(exit_code(Code::kNotFound), 3);
  EXPECT_EQ(exit_code(Code::kCorrupt), 4);
  EXPECT_EQ(exit_code(Code::kUnsupported), 4);
  EXPECT_EQ(exit_code(Code::kUnavailable), 5);
  EXPECT_EQ(exit_code(Code::kDeadlineExceeded), 5);
  EXPECT_EQ(exit_code(Code::kResourceExhausted), 6);
  EXPECT_EQ(exit_code(Code::kPermissionDenied), 7);
  EXPECT_EQ(exit_code(Code::kInternal), 70);
  EXPECT_EQ(exit_code(Code::kCancelled), 130);
}

}  // namespace
}  // namespace meadow::apps
