#include "meadow/child_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "base/check.h"

namespace meadow::apps {
namespace {

struct Pipe {
  int read_end = -1, write_end = -1;

  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void close_read() { close_end(read_end); }
  void close_write() { close_end(write_end); }
  ~Pipe() {
    close_read();
    close_write();
  }

 private:
  static void close_end(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

// Collects what arrives on one descriptor.
class Collector {
 public:
  explicit Collector(int fd) : thread_([this, fd] { read_all(fd); }) {}
  ~Collector() { join(); }

  void join() {
    if (thread_.joinable()) thread_.join();
  }

  std::optional<std::string> next_line(TimePoint until) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return !lines_.empty() || ended_; });
    if (lines_.empty()) return std::nullopt;
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

  bool wait_for(const std::string& text, TimePoint until) {
    std::unique_lock lock(mutex_);
    auto there = [&] { return all_.find(text) != std::string::npos; };
    changed_.wait_until(lock, until, [&] { return there() || ended_; });
    return there();
  }

  bool wait_end(TimePoint until) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, until, [&] { return ended_; });
  }

  bool finished() const {
    std::lock_guard lock(mutex_);
    return ended_ && lines_.empty();
  }

  std::string text() const {
    std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  void read_all(int fd) {
    char buffer[4096];
    while (true) {
      ssize_t n = ::read(fd, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      std::lock_guard lock(mutex_);
      if (n <= 0) break;
      add({buffer, static_cast<size_t>(n)});
      changed_.notify_all();
    }
    ::close(fd);
    std::lock_guard lock(mutex_);
    if (!partial_.empty()) lines_.push_back(std::move(partial_));
    ended_ = true;
    changed_.notify_all();
  }

  void add(std::string_view text) {
    all_ += text;
    for (char c : text) {
      if (c == '\n') {
        lines_.push_back(std::move(partial_));
        partial_.clear();
      } else {
        partial_ += c;
      }
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string all_, partial_;
  std::deque<std::string> lines_;
  bool ended_ = false;
  std::thread thread_;
};

Exit exit_of(int status) {
  if (WIFSIGNALED(status)) return {-1, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

}  // namespace

std::string Exit::text() const {
  return signal ? fmt::format("signal {}", signal) : fmt::format("exit code {}", code);
}

struct ChildProcess::Impl {
  pid_t pid = -1;
  std::optional<Exit> exit;
  std::unique_ptr<Collector> out, err;

  void reap(bool block) {
    if (exit) return;
    int status = 0;
    pid_t got;
    do got = waitpid(pid, &status, block ? 0 : WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got == pid) exit = exit_of(status);
  }

  ~Impl() {
    reap(false);
    if (!exit) {
      ::kill(pid, SIGKILL);
      reap(true);
    }
  }
};

ChildProcess::ChildProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChildProcess::~ChildProcess() = default;
ChildProcess::ChildProcess(ChildProcess&&) noexcept = default;
ChildProcess& ChildProcess::operator=(ChildProcess&&) noexcept = default;

Result<ChildProcess> ChildProcess::start(
    std::vector<std::string> argv,
    const std::vector<std::pair<std::string, std::string>>& extra_environment,
    const std::string& input) {
  MEADOW_CHECK(!argv.empty() && input.size() <= 65536);
  Pipe in, out, err;
  if (!in.open() || !out.open() || !err.open())
    return fail(Code::kResourceExhausted, "no pipe for {}: {}", argv[0], std::strerror(errno));

  // Everything that allocates happens before the fork.
  std::vector<char*> arguments;
  for (std::string& a : argv) arguments.push_back(a.data());
  arguments.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** e = environ; *e; e++) variables.push_back(*e);
  for (const auto& [name, value] : extra_environment) {
    std::erase_if(variables,
                  [&, n = name](const std::string& v) { return v.starts_with(n + "="); });
    variables.push_back(name + "=" + value);
  }
  std::vector<char*> environment;
  for (std::string& v : variables) environment.push_back(v.data());
  environment.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return fail(Code::kResourceExhausted, "fork: {}", std::strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(in.read_end, 0);
    dup2(out.write_end, 1);
    dup2(err.write_end, 2);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }
  auto impl = std::make_unique<Impl>();
  impl->pid = pid;
  if (!input.empty() && ::write(in.write_end, input.data(), input.size()) < 0) {
    // The child is gone already; its exit code will say why.
  }
  impl->out = std::make_unique<Collector>(std::exchange(out.read_end, -1));
  impl->err = std::make_unique<Collector>(std::exchange(err.read_end, -1));
  return ChildProcess(std::move(impl));
}

pid_t ChildProcess::pid() const { return impl_->pid; }
std::optional<std::string> ChildProcess::read_line(TimePoint until) {
  return impl_->out->next_line(until);
}
bool ChildProcess::finished() const { return impl_->out->finished(); }
std::string ChildProcess::stdout_text() const { return impl_->out->text(); }
std::string ChildProcess::stderr_text() const { return impl_->err->text(); }
bool ChildProcess::wait_for_stdout(const std::string& text, TimePoint until) {
  return impl_->out->wait_for(text, until);
}
bool ChildProcess::wait_for_stderr(const std::string& text, TimePoint until) {
  return impl_->err->wait_for(text, until);
}

void ChildProcess::send_signal(int signal) {
  impl_->reap(false);
  if (!impl_->exit) ::kill(impl_->pid, signal);
}

std::optional<Exit> ChildProcess::wait(TimePoint until) {
  // A process that ends closes its output; then only the reaping is left.
  if (!impl_->out->wait_end(until) || !impl_->err->wait_end(until)) {
    impl_->reap(false);
    return impl_->exit;
  }
  impl_->reap(true);
  return impl_->exit;
}

Exit ChildProcess::kill() {
  send_signal(SIGKILL);
  impl_->reap(true);
  return *impl_->exit;
}

Result<int> free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool ok = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (fd >= 0) close(fd);
  if (!ok) return fail(Code::kUnavailable, "no free port on 127.0.0.1: {}", std::strerror(errno));
  return ntohs(address.sin_port);
}

}  // namespace meadow::apps
