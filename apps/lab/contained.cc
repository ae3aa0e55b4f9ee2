#include "contained.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/rng.h"

namespace meadow::labapp {
namespace {

volatile pid_t child = 0;
void pass_on(int signal) {
  if (child > 0) kill(child, signal);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int complain(const Error& error) {
  fmt::print(stderr, "lab: {}\n", error.text());
  return 1;
}

// This process as /proc shows it to those outside; before the namespace gets a /proc of its own.
pid_t own_number_outside() {
  std::error_code error;
  return static_cast<pid_t>(std::atoi(std::filesystem::read_symlink("/proc/self", error).c_str()));
}

lab::Record record_of(const std::string& name, const lab::Lab& lab, pid_t process) {
  lab::Record record{name, random_seed(), process, lab::start_time(process), {}};
  for (size_t i = 0; i < lab.size(); i++) {
    struct stat info{};
    fstat(lab.network(i).descriptor(), &info);
    record.hosts.push_back(
        {lab.file().hosts[i].name, lab.address_of(i), info.st_ino, lab.network(i).descriptor()});
  }
  return record;
}

// The life of the namespace's first process.
int inside_main(const std::string& name, const lab::LabFile& file,
                const std::function<int(lab::Lab&, const lab::Record&)>& inside) {
  auto lab = lab::Lab::start(file);
  if (!lab) return complain(lab.error());
  const std::string folder = lab::record_folder();
  const lab::Record record = record_of(name, **lab, own_number_outside());
  if (auto written = lab::write_record(folder, record); !written) return complain(written.error());
  // So that ps and /proc/self mean the namespace's processes.
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return complain(
        {Code::kPermissionDenied, fmt::format("no /proc for the lab: {}", std::strerror(errno))});
  return inside(**lab, record);
}

}  // namespace

Result<int> run_contained(const std::string& name, const lab::LabFile& file,
                          const std::function<int(lab::Lab&, const lab::Record&)>& inside) {
  MEADOW_TRY_VOID(lab::check_requirements());
  const std::string folder = lab::record_folder();
  for (const lab::Reaped& old : lab::reap(folder))
    fmt::print(stderr, "lab: removed what the lab {} left: {} processes\n", old.name,
               old.processes);
  if (lab::read_record(folder, name))
    return fail(Code::kFailedPrecondition, "a lab named {} runs already: give --name", name);
  if (unshare(CLONE_NEWPID) != 0)
    return fail(Code::kPermissionDenied, "no process namespaces: {}", std::strerror(errno));
  const pid_t parent = getpid();
  child = fork();
  if (child < 0) return fail(Code::kResourceExhausted, "fork: {}", std::strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Inside, the parent's number reads as 0; if it died before the line above, we are orphans.
    if (getppid() != 0 && getppid() != parent) _exit(1);
    const int code = inside_main(name, file, inside);
    std::fflush(nullptr);
    _exit(code);
  }
  handle(SIGTERM, pass_on);
  handle(SIGINT, SIG_IGN);  // the terminal tells the child, too
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  // Processes that came in from outside are not in the namespace of processes.
  for (const lab::Record& record : lab::read_records(folder))
    if (record.name == name && !lab::is_alive(record)) lab::kill_processes(record);
  lab::remove_record(folder, name);
  return exit_code(status);
}

Result<pid_t> start_in_host(const lab::Lab& lab, const lab::Record& record, size_t host,
                            const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const std::string& word : words) texts.push_back(lab.with_addresses(word));
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  const std::string id = fmt::format("{:016x}", record.id);
  const pid_t pid = fork();
  if (pid < 0) return fail(Code::kResourceExhausted, "fork: {}", std::strerror(errno));
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setenv(lab::kIdVariable, id.c_str(), 1);
  setenv("MEADOW_LAB", record.name.c_str(), 1);
  setenv("MEADOW_LAB_HOST", record.hosts[host].name.c_str(), 1);
  if (!lab.network(host).enter()) _exit(126);
  execvp(argv[0], argv.data());
  fmt::print(stderr, "lab: {}: {}\n", argv[0], std::strerror(errno));
  _exit(127);
}

int wait_for(pid_t process) {
  int code = 0;
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(process, &status, 0);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) return code;
    if (code == 0) code = exit_code(status);
    if (ended == process) return code;
  }
}

}  // namespace meadow::labapp
