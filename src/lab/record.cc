#include "lab/record.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lab/lab_file.h"

namespace meadow::lab {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kHead = "meadow-lab 1";
constexpr size_t kMaxBytes = 64 * 1024;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

template <class T>
bool number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
}

// The numbers of all processes.
std::vector<pid_t> processes() {
  std::vector<pid_t> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    pid_t pid = 0;
    if (number(entry.path().filename().string(), pid)) out.push_back(pid);
  }
  return out;
}

bool is_in(pid_t process, const Record& record) {
  struct stat info;
  if (stat(fmt::format("/proc/{}/ns/net", process).c_str(), &info) != 0) return false;
  if (std::none_of(record.hosts.begin(), record.hosts.end(),
                   [&](const RecordedHost& h) { return h.inode == info.st_ino; }))
    return false;
  // The number of a namespace that is gone may belong to a stranger's by now.
  const std::string environment = '\0' + read_file(fmt::format("/proc/{}/environ", process));
  const std::string mine = fmt::format("{}{}={:016x}", '\0', kIdVariable, record.id);
  return environment.find(mine) != std::string::npos;
}

}  // namespace

const RecordedHost* Record::find(std::string_view host) const {
  for (const RecordedHost& h : hosts)
    if (h.name == host) return &h;
  return nullptr;
}

std::string Record::path(const RecordedHost& host) const {
  return fmt::format("/proc/{}/fd/{}", process, host.descriptor);
}

std::string to_text(const Record& record) {
  std::string text = fmt::format("{}\nname {}\nid {:016x}\nprocess {} {}\n", kHead, record.name,
                                 record.id, record.process, record.start);
  for (const RecordedHost& h : record.hosts)
    text += fmt::format("host {} {} {} {}\n", h.name, h.address, h.inode, h.descriptor);
  return text;
}

Result<Record> parse_record(std::string_view text) {
  const auto broken = [](size_t line) {
    return fail(Code::kCorrupt, "a lab's record: line {} is none of ours", line);
  };
  if (text.size() > kMaxBytes) return fail(Code::kCorrupt, "a lab's record: too long");
  Record record;
  size_t n = 0;
  for (std::string_view line : split(text, '\n')) {
    if (n++ == 0) {
      if (line != kHead) return broken(n);
      continue;
    }
    const auto words = split(line, ' ');
    bool ok = false;
    if (words.size() == 2 && words[0] == "name") {
      record.name = words[1];
      ok = good_name(words[1]);
    } else if (words.size() == 2 && words[0] == "id") {
      const auto [end, error] =
          std::from_chars(words[1].data(), words[1].data() + words[1].size(), record.id, 16);
      ok = error == std::errc{} && end == words[1].data() + words[1].size();
    } else if (words.size() == 3 && words[0] == "process") {
      ok = number(words[1], record.process) && number(words[2], record.start) && record.process > 0;
    } else if (words.size() == 5 && words[0] == "host" && record.hosts.size() < kMaxHosts) {
      RecordedHost host{std::string(words[1]), std::string(words[2]), 0, -1};
      ok = good_name(words[1]) && number(words[3], host.inode) &&
           number(words[4], host.descriptor) && host.descriptor >= 0;
      record.hosts.push_back(std::move(host));
    }
    if (!ok) return broken(n);
  }
  if (record.name.empty() || record.process == 0)
    return fail(Code::kCorrupt, "a lab's record: no name or no process");
  return record;
}

uint64_t start_time(pid_t process) {
  const std::string stat = read_file(fmt::format("/proc/{}/stat", process));
  // Field 22; the second, the name in brackets, may hold anything.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  const auto fields = split(std::string_view(stat).substr(name_end), ' ');
  uint64_t start = 0;
  return fields.size() > 20 && number(fields[20], start) ? start : 0;
}

std::string record_folder() {
  const char* folder = std::getenv("MEADOW_LAB_STATE");
  return folder && *folder ? folder : "/run/meadow-lab";
}

Result<void> write_record(const std::string& folder, const Record& record) {
  if (!good_name(record.name))
    return fail(Code::kInvalidArgument,
                "a lab's name \"{}\": expected 1 to 64 letters, digits, - or _", record.name);
  std::error_code error;
  fs::create_directories(folder, error);
  fs::permissions(folder, fs::perms::owner_all, error);
  const std::string path = folder + "/" + record.name, temporary = path + ".new";
  {
    std::ofstream out(temporary, std::ios::binary);
    out << to_text(record);
    if (!out.flush()) return fail(Code::kPermissionDenied, "cannot write {}", temporary);
  }
  fs::rename(temporary, path, error);
  if (error) return fail(Code::kPermissionDenied, "cannot write {}: {}", path, error.message());
  return {};
}

void remove_record(const std::string& folder, const std::string& name) {
  std::error_code error;
  fs::remove(folder + "/" + name, error);
}

Result<Record> read_record(const std::string& folder, const std::string& name) {
  std::error_code error;
  const std::string path = folder + "/" + name;
  if (!good_name(name) || !fs::exists(path, error))
    return fail(Code::kNotFound, "no lab named {} runs: tools/lab list shows those that do", name);
  MEADOW_TRY(auto record, parse_record(read_file(path)));
  if (!is_alive(record)) return fail(Code::kNotFound, "the lab {} has ended", name);
  return record;
}

std::vector<Record> read_records(const std::string& folder) {
  std::vector<Record> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (auto record = parse_record(read_file(entry.path()));
        record && record->name == entry.path().filename().string())
      out.push_back(std::move(*record));
  return out;
}

int kill_processes(const Record& record) {
  int killed = 0;
  for (pid_t pid : processes())
    if (pid != getpid() && is_in(pid, record) && kill(pid, SIGKILL) == 0) killed++;
  return killed;
}

std::vector<Reaped> reap(const std::string& folder) {
  std::vector<Reaped> out;
  for (const Record& record : read_records(folder)) {
    if (is_alive(record)) continue;
    out.push_back({record.name, kill_processes(record)});
    remove_record(folder, record.name);
  }
  return out;
}

}  // namespace meadow::lab
