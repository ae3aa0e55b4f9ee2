#include "server/measure.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model/testing/test_model.h"

namespace meadow::server {
namespace {

class SpeedCache : public testing::Test {
 protected:
  SpeedCache()
      : folder_(std::filesystem::temp_directory_path() /
                fmt::format("meadow-speeds-{}", ::getpid())),
        path_((folder_ / "deep" / "speeds.json").string()) {}
  ~SpeedCache() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& text) {
    std::filesystem::create_directories(folder_ / "deep");
    std::ofstream(path_) << text;
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST(Measure, EverySpeedOfASpan) {
  const auto file = model::testing::make_file({});
  const auto h = model::hyperparameters(*file);
  ASSERT_TRUE(h);
  const SystemClock clock;
  for (const int64_t cache : {int64_t{64}, int64_t{1024}}) {
    auto executor = engine::SpanExecutor::load(
        file, {.blocks = {0, h->n_blocks}, .threads = 1, .cache_tokens = cache});
    ASSERT_TRUE(executor) << executor.error().text();
    const auto speeds = measure_speeds(**executor, 1, clock, nullptr);
    ASSERT_TRUE(speeds) << speeds.error().text();
    EXPECT_GT(speeds->speed.decode, 0);
    EXPECT_GT(speeds->speed.prefill, speeds->speed.decode / 2);
    EXPECT_GT(speeds->speed.forward, 0);
    EXPECT_EQ(speeds->speed.backward, 0);
    EXPECT_GT(speeds->memory_bytes_per_s, 1e8);
    EXPECT_EQ((*executor)->stats().sessions, 0);
    CancelToken cancel;
    cancel.cancel();
    EXPECT_EQ(measure_speeds(**executor, 1, clock, &cancel).error().code, Code::kCancelled);
    EXPECT_EQ((*executor)->stats().sessions, 0);
  }
}

TEST(Measure, KeysTellApartWhatSpeedsDependOn) {
  model::testing::TestModel other;
  other.seed = 2;
  const auto file = model::testing::make_file({}), another = model::testing::make_file(other);
  const std::string key = speed_key(*file, 2, false, DType::kF16, "0.1.0").value();
  EXPECT_EQ(key, speed_key(*file, 2, false, DType::kF16, "0.1.0").value());
  for (const auto& different : {speed_key(*another, 2, false, DType::kF16, "0.1.0"),
                                speed_key(*file, 1, false, DType::kF16, "0.1.0"),
                                speed_key(*file, 2, true, DType::kF16, "0.1.0"),
                                speed_key(*file, 2, false, DType::kQ8_0, "0.1.0"),
                                speed_key(*file, 2, false, DType::kF16, "0.1.1")})
    EXPECT_NE(key, different.value());
}

TEST_F(SpeedCache, KeepsWhatItIsGiven) {
  const Speeds a{{1, 2, 3, 0}, 4}, b{{5, 6, 7, 0}, 8};
  EXPECT_FALSE(cached_speeds(path_, "a"));
  ASSERT_TRUE(cache_speeds(path_, "a", a));
  ASSERT_TRUE(cache_speeds(path_, "b", b));
  EXPECT_EQ(cached_speeds(path_, "a"), a);
  EXPECT_EQ(cached_speeds(path_, "b"), b);
  ASSERT_TRUE(cache_speeds(path_, "a", b));
  EXPECT_EQ(cached_speeds(path_, "a"), b);
  for (size_t i = 0; i < kMaxCachedSpeeds; i++)
    ASSERT_TRUE(cache_speeds(path_, fmt::format("more {}", i), a));
  EXPECT_FALSE(cached_speeds(path_, "b"));  // the oldest made room
  EXPECT_TRUE(cached_speeds(path_, "more 0"));
}

TEST_F(SpeedCache, NonsenseIsAsGoodAsNothing) {
  for (const char* text :
       {"", "{", "[]", "{\"a\": 1}", "[1, null, {\"key\": 3}]", "[{\"key\": \"a\"}]",
        "[{\"key\": \"a\", \"decode\": -1, \"prefill\": 1, \"forward\": 1, "
        "\"memory_bytes_per_s\": 1}]",
        "[{\"key\": \"a\", \"decode\": 1e999, \"prefill\": 1, \"forward\": 1, "
        "\"memory_bytes_per_s\": 1}]"}) {
    write(text);
    EXPECT_FALSE(cached_speeds(path_, "a")) << text;
    ASSERT_TRUE(cache_speeds(path_, "a", {{1, 2, 3, 0}, 4})) << text;
    EXPECT_TRUE(cached_speeds(path_, "a")) << text;
  }
  EXPECT_FALSE(cache_speeds("/proc/nowhere/speeds.json", "a", {}));
}

}  // namespace
}  // namespace meadow::server
