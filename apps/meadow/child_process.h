// A child process whose output arrives as lines: for `meadow demo` and the end-to-end tests.
// Thread rule: one thread per object. Owns the process: destroying the object kills and reaps it,
// and the kernel kills it if the starting thread dies first, so nothing is left behind.
#pragma once
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace meadow::apps {

// How a process ended: its exit code, or the signal that ended it.
struct Exit {
  int code = -1;
  int signal = 0;
  bool ok() const { return code == 0 && signal == 0; }
  std::string text() const;  // "exit code 5", "signal 9"
};

class ChildProcess {
 public:
  // Starts argv[0] (a path) with `extra_environment` added; its stdin is empty unless `input` is
  // given, which is written whole (at most 64 KiB). Does not block.
  static Result<ChildProcess> start(
      std::vector<std::string> argv,
      const std::vector<std::pair<std::string, std::string>>& extra_environment = {},
      const std::string& input = "");
  ~ChildProcess();
  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;

  pid_t pid() const;
  // The next line of stdout, without its end; nothing once `until` has come or stdout ended.
  std::optional<std::string> read_line(TimePoint until);
  // True once stdout ended and every line was read.
  bool finished() const;
  // Everything so far: stdout as it came, stderr as it came.
  std::string stdout_text() const;
  std::string stderr_text() const;
  // Blocks until the stream contains `text`; false once `until` has come or the process closed it.
  bool wait_for_stdout(const std::string& text, TimePoint until);
  bool wait_for_stderr(const std::string& text, TimePoint until);

  void send_signal(int signal);
  // Blocks until the process ended (and its output is read) or `until` has come. May be repeated.
  std::optional<Exit> wait(TimePoint until);
  // SIGKILL and wait.
  Exit kill();

 private:
  struct Impl;
  explicit ChildProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A TCP port of 127.0.0.1 that was free a moment ago; kUnavailable if there is none.
Result<int> free_port();

}  // namespace meadow::apps
