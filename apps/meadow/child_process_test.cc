#include "meadow/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>

namespace meadow::apps {
namespace {

TimePoint soon() { return SystemClock().now() + 10s; }

Result<ChildProcess> shell(const std::string& script, const std::string& input = "") {
  return ChildProcess::start({"/bin/sh", "-c", script}, {{"GREETING", "hello"}}, input);
}

TEST(ChildProcess, LinesExitCodeAndEnvironment) {
  auto child = shell("echo $GREETING; printf 'no end'; echo problem >&2; exit 5");
  ASSERT_TRUE(child) << child.error().text();
  EXPECT_EQ(child->read_line(soon()), "hello");
  EXPECT_EQ(child->read_line(soon()), "no end");
  EXPECT_EQ(child->read_line(soon()), std::nullopt);
  EXPECT_TRUE(child->finished());
  const auto exit = child->wait(soon());
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 5);
  EXPECT_EQ(child->stdout_text(), "hello\nno end");
  EXPECT_EQ(child->stderr_text(), "problem\n");
}

TEST(ChildProcess, Input) {
  auto child = shell("cat", "one\ntwo\n");
  ASSERT_TRUE(child);
  EXPECT_EQ(child->read_line(soon()), "one");
  EXPECT_EQ(child->read_line(soon()), "two");
  EXPECT_TRUE(child->wait(soon())->ok());
}

TEST(ChildProcess, WaitEndsAtItsTimeAndKillEndsTheProcess) {
  auto child = shell("echo ready; exec sleep 60");
  ASSERT_TRUE(child);
  EXPECT_EQ(child->read_line(soon()), "ready");
  EXPECT_EQ(child->wait(SystemClock().now()), std::nullopt);
  EXPECT_EQ(child->kill().signal, SIGKILL);
}

TEST(ChildProcess, DestructorLeavesNothing) {
  pid_t pid = 0;
  {
    auto child = shell("echo ready; exec sleep 60");
    ASSERT_TRUE(child);
    ASSERT_EQ(child->read_line(soon()), "ready");
    pid = child->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ChildProcess, MissingProgram) {
  auto child = ChildProcess::start({"/no/such/program"});
  ASSERT_TRUE(child);
  EXPECT_EQ(child->wait(soon())->code, 127);
}

}  // namespace
}  // namespace meadow::apps
