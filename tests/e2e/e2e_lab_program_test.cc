// meadow-lab as people run it: commands in hosts, entering from outside, and nothing left whoever
// is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "e2e.h"
#include "lab/record.h"
#include "lab_here.h"

namespace meadow::e2e {
namespace {

using testing::HasSubstr;

class LabProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!lab_here()) GTEST_SKIP();
    std::ofstream(folder.file("two.lab")) << "host a\nhost b\ndefault rtt=30ms\n";
  }
  apps::ChildProcess start(const Arguments& arguments) {
    return apps::ChildProcess::start(
               Arguments{MEADOW_LAB_PROGRAM} + arguments,
               {{"MEADOW_LAB_STATE", folder.file("state")}, {"MEADOW_LAB_TEST", folder.file("")}})
        .value();
  }
  std::string run(const Arguments& arguments, int expected_code) {
    auto child = start(arguments);
    const auto exit = child.wait(within(kPatience));
    EXPECT_TRUE(exit);
    const std::string text = child.stdout_text() + child.stderr_text();
    EXPECT_EQ(exit ? exit->code : -1, expected_code) << text;
    return text;
  }
  // A lab that is up, and what it wrote about itself.
  apps::ChildProcess up(lab::Record& record) {
    auto child = start({"up", folder.file("two.lab")});
    EXPECT_TRUE(child.wait_for_stdout("b ", within(kPatience))) << child.stderr_text();
    record = lab::read_record(folder.file("state"), "two").value();
    return child;
  }
  static bool namespace_exists(const lab::Record& record) {
    struct stat info;
    return stat(record.path(record.hosts[0]).c_str(), &info) == 0;
  }
  // Processes end a moment after they were killed.
  static void expect_soon(const std::function<bool()>& condition, const char* what) {
    const TimePoint until = within(10s);
    while (!condition() && SystemClock().now() < until) std::this_thread::yield();
    EXPECT_TRUE(condition()) << what;
  }
  int processes() const { return processes_with("MEADOW_LAB_TEST", folder.file("")); }

  TemporaryFolder folder;
};

TEST_F(LabProgramTest, RunsCommandsInHosts) {
  const std::string text = run(
      {"run", folder.file("two.lab"), "--on", "a",
       "cat /proc/net/fib_trie; echo host $MEADOW_LAB_HOST", "--on", "b", "echo other {a}; exit 7"},
      7);
  EXPECT_THAT(text, HasSubstr("10.90.0.1"));
  EXPECT_THAT(text, HasSubstr("host a"));
  EXPECT_THAT(text, HasSubstr("other 10.90.0.1"));
  EXPECT_EQ(processes(), 0);
}

TEST_F(LabProgramTest, TellsMistakes) {
  EXPECT_THAT(run({"run", folder.file("none.lab"), "--on", "a", "true"}, 1),
              HasSubstr("cannot read"));
  EXPECT_THAT(run({"run", folder.file("two.lab"), "--on", "c", "true"}, 2), HasSubstr("no host c"));
  std::ofstream(folder.file("bad.lab")) << "host a\nlink a a rtt=soon\n";
  EXPECT_THAT(run({"up", folder.file("bad.lab")}, 2), HasSubstr("line 2"));
  EXPECT_THAT(run({"exec", "nobody", "a", "--", "true"}, 1), HasSubstr("no lab named nobody"));
}

TEST_F(LabProgramTest, EntersARunningLab) {
  lab::Record record;
  auto lab = up(record);
  EXPECT_THAT(run({"list"}, 0), HasSubstr("lab two"));
  EXPECT_THAT(run({"exec", "two", "b", "--", "sh", "-c", "cat /proc/net/fib_trie"}, 0),
              HasSubstr("10.90.0.2"));
  EXPECT_THAT(run({"exec", "two", "c", "--", "true"}, 1), HasSubstr("no host c"));
  EXPECT_THAT(run({"up", folder.file("two.lab")}, 1), HasSubstr("runs already"));
  auto inside = start({"exec", "two", "a", "--", "sh", "-c", "echo in; exec sleep 1000"});
  ASSERT_TRUE(inside.wait_for_stdout("in", within(kPatience))) << inside.stderr_text();
  EXPECT_EQ(processes(), 3);  // watcher, lab, sleep
  // The end of the lab is the end of what is in it.
  lab.send_signal(SIGTERM);
  const auto exit = lab.wait(within(kPatience));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 0) << lab.stderr_text();
  EXPECT_EQ(inside.wait(within(kPatience)).value_or(apps::Exit{}).signal, SIGKILL);
  EXPECT_EQ(run({"list"}, 0), "");
}

TEST_F(LabProgramTest, NothingIsLeftOfAKilledLab) {
  for (const bool kill_watcher : {true, false}) {
    lab::Record record;
    auto lab = up(record);
    auto inside = start({"exec", "two", "a", "--", "sh", "-c", "echo in; exec sleep 1000"});
    ASSERT_TRUE(inside.wait_for_stdout("in", within(kPatience))) << inside.stderr_text();
    EXPECT_TRUE(namespace_exists(record));
    if (kill_watcher)
      lab.send_signal(SIGKILL);
    else
      ::kill(record.process, SIGKILL);
    expect_soon([&] { return !lab::is_alive(record) && !namespace_exists(record); },
                "the lab's process and its networks end");
    ASSERT_TRUE(lab.wait(within(kPatience)));
    // The next command of any kind finds what came in from outside, too.
    run({"list"}, 0);
    EXPECT_EQ(inside.wait(within(kPatience)).value_or(apps::Exit{}).signal, SIGKILL);
    EXPECT_EQ(processes(), 0);
  }
}

TEST_F(LabProgramTest, GrandchildrenDieWithTheLab) {
  auto lab = start({"run", folder.file("two.lab"), "--on", "a",
                    "setsid sh -c 'echo daemon; exec sleep 1000' & sleep 1000"});
  ASSERT_TRUE(lab.wait_for_stdout("daemon", within(kPatience))) << lab.stderr_text();
  lab.send_signal(SIGKILL);
  ASSERT_TRUE(lab.wait(within(kPatience)));
  expect_soon([&] { return processes() == 0; }, "all processes end");
}

TEST_F(LabProgramTest, CheckMeasures) {
  const Json figures = Json::parse(run({"check", "--quick", "--json"}, 0), nullptr, false);
  ASSERT_TRUE(figures.is_object());
  ASSERT_EQ(figures["round_trips"].size(), 4u);
  for (const Json& trip : figures["round_trips"])
    EXPECT_GE(trip["median_ms"].get<double>(), trip["asked_ms"].get<double>());
  // Only that there is a limit: how exact it is on a busy machine is what the command is for.
  ASSERT_EQ(figures["rates"].size(), 4u);
  EXPECT_LT(figures["rates"][3]["payload_bits_per_s"].get<double>(),
            figures["rates"][0]["payload_bits_per_s"].get<double>());
}

}  // namespace
}  // namespace meadow::e2e
