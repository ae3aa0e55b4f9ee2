#include "format/source.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/rng.h"

namespace meadow::format {
namespace {

TEST(RangeSet, CountsEachByteOnce) {
  Rng rng(1);
  for (int round = 0; round < 200; round++) {
    RangeSet set;
    std::vector<bool> naive(100);
    for (int i = 0; i < 12; i++) {
      const uint64_t begin = rng.below(100), end = begin + rng.below(101 - begin);
      set.add(begin, end);
      for (uint64_t at = begin; at < end; at++) naive[at] = true;
      ASSERT_EQ(set.bytes(), static_cast<uint64_t>(std::count(naive.begin(), naive.end(), true)));
    }
  }
}

TEST(Source, RefusesRangesOutside) {
  MemorySource source(Bytes(10));
  EXPECT_TRUE(source.view(0, 10, Purpose::kWeights));
  EXPECT_TRUE(source.view(10, 0, Purpose::kWeights));
  for (const auto& [offset, length] :
       {std::pair<uint64_t, uint64_t>{0, 11}, {11, 0}, {5, 6}, {UINT64_MAX, 2}, {2, UINT64_MAX}}) {
    const auto view = source.view(offset, length, Purpose::kMetadata);
    ASSERT_FALSE(view) << offset;
    EXPECT_EQ(view.error().code, Code::kCorrupt);
  }
  EXPECT_EQ(source.touched(Purpose::kWeights), 10u);
  EXPECT_EQ(source.touched(Purpose::kMetadata), 0u);
}

class FileSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    path = testing::TempDir() + "meadow_source_" + std::to_string(random_seed());
    write("0123456789");
  }
  void TearDown() override { std::filesystem::remove(path); }
  void write(std::string_view text) { std::ofstream(path, std::ios::binary) << text; }
  std::string path;
};

TEST_F(FileSourceTest, MapsTheWholeFile) {
  const auto source = FileSource::open(path).value();
  EXPECT_EQ(source->size(), 10u);
  EXPECT_EQ(as_text(source->view(3, 4, Purpose::kWeights).value()), "3456");
  EXPECT_EQ(source->touched(Purpose::kWeights), 4u);
}

TEST_F(FileSourceTest, SaysWhatIsWrongWithAPath) {
  EXPECT_EQ(FileSource::open(path + ".not").error().code, Code::kNotFound);
  EXPECT_EQ(FileSource::open(testing::TempDir()).error().code, Code::kInvalidArgument);
  write("");
  EXPECT_EQ(FileSource::open(path).error().code, Code::kCorrupt);
  EXPECT_NE(FileSource::open(path).error().message.find(path), std::string::npos);
}

TEST_F(FileSourceTest, RefusesAFileThatShrank) {
  const auto source = FileSource::open(path).value();
  write("012");
  const auto view = source->view(0, 1, Purpose::kWeights);
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace meadow::format
