#include "meadow/output_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace meadow::apps {
namespace {

namespace fs = std::filesystem;

class OutputFile : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t entries() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  std::string folder_ = (fs::temp_directory_path() / "meadow-output-XXXXXX").string();
};

TEST_F(OutputFile, WritesAndReplaces) {
  const std::string path = file("a.json");
  ASSERT_TRUE(check_can_write(path));
  EXPECT_EQ(entries(), 0u);
  ASSERT_TRUE(write_whole(path, "first, and longer"));
  ASSERT_TRUE(write_whole(path, "second"));
  EXPECT_EQ(text_of(path), "second");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(OutputFile, ALinkStaysALink) {
  fs::create_symlink(file("target"), file("link"));
  std::ofstream(file("target")) << "old";
  ASSERT_TRUE(write_whole(file("link"), "new"));
  EXPECT_TRUE(fs::is_symlink(file("link")));
  EXPECT_EQ(text_of(file("target")), "new");
}

TEST_F(OutputFile, WhatCannotBeWrittenIsSaidBefore) {
  const auto missing = check_can_write(file("no/such.json"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_NE(missing.error().message.find(file("no")), std::string::npos);
  EXPECT_FALSE(write_whole(file("no/such.json"), "x"));
  for (const std::string& path : {std::string(), folder_, file("b/")})
    EXPECT_EQ(check_can_write(path).error().code, Code::kInvalidArgument) << path;
}

TEST_F(OutputFile, FullDeviceIsAnErrorAndStaysADevice) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const auto written = write_whole("/dev/full", "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kResourceExhausted);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(OutputFile, WhatWasThereStaysIfTheRoomEnds) {
  const std::string path = file("a.json");
  ASSERT_TRUE(write_whole(path, "old"));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto written = write_whole(path, std::string(5000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kResourceExhausted);
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace meadow::apps
