// meadow-lab: a network of several hosts on this machine, made of namespaces. docs/lab.md.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "check.h"
#include "contained.h"
#include "lab/host_network.h"
#include "lab/lab.h"
#include "lab/record.h"

namespace meadow::labapp {
namespace {

constexpr char kFooter[] = R"(Examples:
  tools/lab check                                   what a lab on this machine is worth
  tools/lab run two.lab --on a "nc -l 7000" --on b "echo hi | nc {a} 7000"
  tools/lab shell two.lab a                         a shell in a host
  tools/lab up two.lab                              stays; then, elsewhere:
  tools/lab exec two a -- ping {b}

In commands, {NAME} stands for the address of the host NAME. docs/lab.md has the file's format.)";

struct Options {
  std::string file, name, host;
  std::vector<std::string> on, words;
  size_t hosts = 2;
  bool json = false, quick = false;
};

std::string name_of(const Options& options) {
  return options.name.empty() ? std::filesystem::path(options.file).stem().string() : options.name;
}

void print_hosts(const lab::Record& record, FILE* to) {
  for (const lab::RecordedHost& h : record.hosts) fmt::print(to, "{:<16} {}\n", h.name, h.address);
  std::fflush(to);
}

// Each "--on HOST COMMAND" in turn; commands run side by side.
Result<int> run(const Options& options) {
  MEADOW_TRY(const lab::LabFile file, lab::read_lab(options.file));
  std::vector<std::pair<size_t, std::string>> commands;
  for (size_t i = 0; i + 1 < options.on.size(); i += 2) {
    const auto host = file.find(options.on[i]);
    if (!host)
      return fail(Code::kInvalidArgument, "{} has no host {}", options.file, options.on[i]);
    commands.emplace_back(*host, options.on[i + 1]);
  }
  return run_contained(name_of(options), file, [&](lab::Lab& lab, const lab::Record& record) {
    for (const auto& [host, command] : commands)
      if (auto started = start_in_host(lab, record, host, {"/bin/sh", "-c", command}); !started)
        return 1;
    return wait_for(-1);
  });
}

Result<int> up(const Options& options) {
  MEADOW_TRY(const lab::LabFile file, lab::read_lab(options.file));
  return run_contained(name_of(options), file, [&](lab::Lab&, const lab::Record& record) {
    sigset_t ends;
    sigemptyset(&ends);
    for (int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, s);
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    fmt::print("lab {} is up\n", record.name);
    print_hosts(record, stdout);
    int signal = 0;
    sigwait(&ends, &signal);
    return 0;
  });
}

// Becomes the command: same process, so that signals and waiting mean the command itself.
Result<int> exec_at(const std::string& path, std::vector<std::string> words) {
  MEADOW_TRY_VOID(lab::enter_network(path));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return fail(Code::kNotFound, "{}: {}", words[0], std::strerror(errno));
}

std::vector<std::string> shell_words() {
  const char* shell = std::getenv("SHELL");
  return {shell && *shell ? shell : "/bin/sh"};
}

// Into a host of a running lab, from outside.
Result<int> exec_in_lab(const std::string& name, const std::string& host,
                        std::vector<std::string> words) {
  MEADOW_TRY(const lab::Record record, lab::read_record(lab::record_folder(), name));
  const lab::RecordedHost* at = record.find(host);
  if (!at) return fail(Code::kNotFound, "the lab {} has no host {}", name, host);
  for (std::string& word : words)
    for (const lab::RecordedHost& h : record.hosts)
      for (size_t from; (from = word.find("{" + h.name + "}")) != std::string::npos;)
        word.replace(from, h.name.size() + 2, h.address);
  setenv(lab::kIdVariable, fmt::format("{:016x}", record.id).c_str(), 1);
  setenv("MEADOW_LAB", name.c_str(), 1);
  setenv("MEADOW_LAB_HOST", host.c_str(), 1);
  return exec_at(record.path(*at), std::move(words));
}

Result<int> exec(const Options& options) {
  // A path of a namespace, as programs that have a lab of their own use it.
  if (options.host == "-" && options.name.starts_with("/proc/"))
    return exec_at(options.name, options.words);
  return exec_in_lab(options.name, options.host, options.words);
}

Result<int> shell(const Options& options) {
  if (!std::filesystem::exists(options.file))
    return exec_in_lab(options.file, options.host, shell_words());
  MEADOW_TRY(const lab::LabFile file, lab::read_lab(options.file));
  const auto host = file.find(options.host);
  if (!host) return fail(Code::kInvalidArgument, "{} has no host {}", options.file, options.host);
  return run_contained(name_of(options), file, [&](lab::Lab& lab, const lab::Record& record) {
    signal(SIGINT, SIG_IGN);  // the shell's own affair
    print_hosts(record, stderr);
    const auto started = start_in_host(lab, record, *host, shell_words());
    return started ? wait_for(*started) : 1;
  });
}

Result<int> list() {
  const std::string folder = lab::record_folder();
  for (const lab::Reaped& old : lab::reap(folder))
    fmt::print(stderr, "lab: removed what the lab {} left: {} processes\n", old.name,
               old.processes);
  for (const lab::Record& record : lab::read_records(folder)) {
    fmt::print("lab {} (process {})\n", record.name, record.process);
    print_hosts(record, stdout);
  }
  return 0;
}

int end(const Result<int>& result) {
  if (result) return *result;
  fmt::print(stderr, "lab: {}\n", result.error().text());
  return result.error().code == Code::kInvalidArgument ? 2 : 1;
}

int main_of(int argc, char** argv) {
  CLI::App program("A network of several hosts on this machine: round trips, jitter, loss, rates.",
                   "meadow-lab");
  program.require_subcommand(1);
  program.footer(kFooter);
  Options options;
  Result<int> result = 0;

  CLI::App* check_command = program.add_subcommand("check", "Measure top rate and errors of delay");
  check_command->add_option("--hosts", options.hosts, "Hosts in the lab")
      ->check(CLI::Range(size_t{2}, lab::kMaxHosts))
      ->capture_default_str();
  check_command->add_flag("--quick", options.quick, "Fewer samples");
  check_command->add_flag("--json", options.json, "One JSON object");
  check_command->callback([&] {
    const auto checked = check(options.hosts, options.json, options.quick);
    result = checked ? Result<int>(0) : fail(checked.error());
  });

  auto with_file = [&](const char* name, const char* what, Result<int> (*f)(const Options&)) {
    CLI::App* command = program.add_subcommand(name, what);
    command->add_option("file", options.file, "The lab file")->required();
    command->add_option("--name", options.name, "Of the lab (default: the file's name)");
    command->callback([&, f] { result = f(options); });
    return command;
  };
  with_file("run", "Run commands in hosts, side by side, until all have ended", run)
      ->add_option("--on", options.on, "HOST COMMAND (for sh -c); may be repeated")
      ->expected(2)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->required();
  with_file("up", "Start a lab and keep it until Ctrl-C", up);
  with_file("shell", "A shell in a host; FILE may be the name of a running lab", shell)
      ->add_option("host", options.host, "The host")
      ->required();

  CLI::App* exec_command = program.add_subcommand("exec", "Become a command in a running lab");
  exec_command->add_option("lab", options.name, "Its name, or the path of a namespace")->required();
  exec_command->add_option("host", options.host, "The host; - with a path")->required();
  exec_command->add_option("command", options.words, "After --")->required();
  exec_command->callback([&] { result = exec(options); });

  program.add_subcommand("list", "Running labs; removes what killed ones left")->callback([&] {
    result = list();
  });

  CLI11_PARSE(program, argc, argv);
  return end(result);
}

}  // namespace
}  // namespace meadow::labapp

int main(int argc, char** argv) { return meadow::labapp::main_of(argc, argv); }
