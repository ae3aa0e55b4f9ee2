#include "meadow/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "meadow/output_file.h"

namespace meadow::apps {
namespace {

std::atomic<int> g_output_error{0};  // errno of the first failed write to stdout

}  // namespace

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

ProgressBar::ProgressBar(std::string what, const Clock& clock, bool quiet)
    : what_(std::move(what)),
      clock_(clock),
      active_(!quiet && is_terminal(2)),
      started_(clock.now()),
      last_(started_) {}

ProgressBar::~ProgressBar() { finish(); }

void ProgressBar::update(int64_t done, int64_t total) {
  const TimePoint now = clock_.now();
  if (!active_ || total <= 0 || now - started_ < 300ms || (drawn_ && now - last_ < 100ms)) return;
  constexpr int kWidth = 30;
  const int full = static_cast<int>(std::clamp<int64_t>(done * kWidth / total, 0, kWidth));
  std::fprintf(stderr, "\r\033[K%s [%s%s] %lld/%lld", what_.c_str(), std::string(full, '#').c_str(),
               std::string(kWidth - full, '.').c_str(), static_cast<long long>(done),
               static_cast<long long>(total));
  std::fflush(stderr);
  drawn_ = true;
  last_ = now;
}

void ProgressBar::finish() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  const char* units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < std::size(units)) {
    value /= 1000;
    unit++;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      out += c;
    else
      out += fmt::format("\\x{:02x}", byte);
  }
  return out;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); i++) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); i++) {
      out += row[i];
      if (i + 1 < row.size()) out.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += '\n';
  }
  return out;
}

std::string to_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool put(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return true;
  int none = 0;
  if (errno != EPIPE) g_output_error.compare_exchange_strong(none, errno);
  return false;
}

Result<void> output_written() {
  if (const int error = g_output_error.load(); error != 0)
    return fail(system_error("cannot write to standard output", error));
  return {};
}

void say(std::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

void report(const Error& error, bool json) {
  if (json &&
      put(to_line(
          {{"error", {{"code", std::string(name(error.code))}, {"message", error.message}}}})))
    return;
  say("meadow: " + error.text());
}

}  // namespace meadow::apps
