// meadow demo ends by itself, tells the truth, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "e2e.h"
#include "format/test_model.h"

namespace meadow::e2e {
namespace {

constexpr char kTag[] = "MEADOW_E2E_TAG";

std::string tag(const char* test) { return fmt::format("{}-{}", test, getpid()); }

TEST(Demo, KillsAServerAndTheTextIsEqual) {
  TemporaryFolder folder;
  const std::string report = folder.file("demo.json"), mark = tag("whole");
  auto demo = apps::ChildProcess::start({program(), "demo", "--model", model(), "--report", report,
                                         "--max-tokens", "48", "--prompt", "What is a river?"},
                                        {{kTag, mark}});
  ASSERT_TRUE(demo);
  const auto exit = demo->wait(within(200s));
  ASSERT_TRUE(exit) << demo->stdout_text() << demo->stderr_text();
  EXPECT_EQ(exit->text(), "exit code 0") << demo->stdout_text() << demo->stderr_text();
  EXPECT_EQ(processes_with(kTag, mark), 0);

  std::ifstream file(report);
  const Json json = Json::parse(file, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["text_equal"], true);
  EXPECT_GT(json["tokens"].get<int>(), 16);
  EXPECT_GT(json["tokens_per_s"].get<double>(), 0);
  EXPECT_GT(json["stall_ms"].get<double>(), 0);
  EXPECT_DOUBLE_EQ(json["stall_ms"].get<double>(),
                   json["detection_ms"].get<double>() + json["replay_ms"].get<double>());
  EXPECT_GT(json["bytes_sent"].get<uint64_t>(), 0u);
  const std::string killed = json["killed_peer"];
  EXPECT_EQ(killed.size(), 64u);
  EXPECT_THAT(json["route_before"].dump(), testing::HasSubstr(killed));
  EXPECT_THAT(json["route_after"].dump(), testing::Not(testing::HasSubstr(killed)));
}

// An answer of a few words is over long before a third of --max-tokens.
TEST(Demo, ShortAnswerIsInterruptedToo) {
  const Finished demo = run({"demo", "--model", model(), "--json", "--prompt",
                             "What is the capital of France? Answer in one word."});
  EXPECT_EQ(demo.exit.text(), "exit code 0") << demo.out << demo.err;
  const Json json = demo.json();
  ASSERT_TRUE(json.is_object()) << demo.out;
  EXPECT_LT(json["tokens"].get<int>(), 32);
  EXPECT_EQ(json["text_equal"], true);
  EXPECT_FALSE(json["failovers"].empty());
  EXPECT_THAT(json["route_after"].dump(),
              testing::Not(testing::HasSubstr(json["killed_peer"].get<std::string>())));
}

TEST(Demo, ReportThatCannotBeWrittenIsAnError) {
  TemporaryFolder folder;
  const Finished before =
      run({"demo", "--model", model(), "--report", folder.file("no/such.json")}, "", 10s);
  EXPECT_EQ(before.exit.code, 3) << before.exit.text();
  EXPECT_EQ(before.out, "");  // no run
  EXPECT_THAT(before.err, testing::HasSubstr("no/such.json"));
  const Finished full =
      run({"demo", "--model", model(), "--report", "/dev/full", "--max-tokens", "8"});
  EXPECT_EQ(full.exit.code, 6) << full.out << full.err;
  EXPECT_THAT(full.err, testing::HasSubstr("/dev/full"));
}

TEST(Demo, TakesAnyModelByPath) {
  TemporaryFolder folder;
  const std::string path = folder.file("tiny.gguf"), report = folder.file("demo.json");
  format::TestModelOptions options;
  options.architecture = "qwen2";
  options.n_blocks = 2;
  options.type = DType::kQ8_0;
  ASSERT_TRUE(format::write_test_model(options, path));
  const Finished demo = run({"demo", "--model", path, "--report", report, "--json", "--max-tokens",
                             "60", "--prompt", "river"});
  EXPECT_EQ(demo.exit.text(), "exit code 0") << demo.out << demo.err;
  ASSERT_TRUE(demo.json().is_object()) << demo.out;
  EXPECT_EQ(demo.json()["text_equal"], true);
  EXPECT_EQ(demo.json()["route_before"].size(), 2u);
}

TEST(Demo, InterruptedItLeavesNothing) {
  const std::string mark = tag("interrupted");
  auto demo = apps::ChildProcess::start({program(), "demo", "--model", model()}, {{kTag, mark}});
  ASSERT_TRUE(demo);
  ASSERT_TRUE(demo->wait_for_stdout("answer:", within(kPatience))) << demo->stdout_text();
  demo->send_signal(SIGTERM);
  const auto exit = demo->wait(within(30s));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 130);
  EXPECT_EQ(processes_with(kTag, mark), 0);
}

TEST(Demo, LimitEndsIt) {
  const std::string mark = tag("limited");
  auto demo = apps::ChildProcess::start(
      {program(), "demo", "--model", model(), "--limit", "2", "--max-tokens", "1000"},
      {{kTag, mark}});
  ASSERT_TRUE(demo);
  const auto exit = demo->wait(within(30s));
  ASSERT_TRUE(exit);
  EXPECT_NE(exit->code, 0);
  EXPECT_EQ(processes_with(kTag, mark), 0);
}

}  // namespace
}  // namespace meadow::e2e
