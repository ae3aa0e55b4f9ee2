// What people see: progress on stderr while they wait, tables, sizes; and the JSON that scripts
// see. Thread rule: one thread per object; the functions from any thread.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace meadow::apps {

using Json = nlohmann::ordered_json;

bool is_terminal(int fd);

// A bar on stderr, drawn only if stderr is a terminal and the work is not over at once.
class ProgressBar {
 public:
  // `quiet`: draws nothing, whatever stderr is.
  ProgressBar(std::string what, const Clock& clock, bool quiet = false);
  ~ProgressBar();  // wipes the bar
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(int64_t done, int64_t total);
  void finish();

 private:
  std::string what_;
  const Clock& clock_;
  bool active_;
  bool drawn_ = false;
  TimePoint started_, last_;
};

// "98.4 MB": powers of 1000.
std::string human_bytes(uint64_t bytes);
// `text` with control bytes escaped, so that a file or a peer cannot write to the terminal through
// us.
std::string printable(std::string_view text);
// Rows as aligned columns, two spaces between them; the first row is the head.
std::string table(const std::vector<std::vector<std::string>>& rows);

// One line of JSON; text that is not UTF-8 gets replacement characters.
std::string to_line(const Json& json);
// Writes text to stdout at once. False if that failed; output_written() says how.
bool put(std::string_view text);
// The first failure of put() in this process, if there was one. That nobody reads any more (a
// closed pipe) is none: who closed it knows.
Result<void> output_written();
// Writes a line to stderr.
void say(std::string_view line);
// "meadow: not-found: no file …" on stderr, or {"error": …} as a line on stdout for scripts (on
// stderr after all if stdout takes nothing).
void report(const Error& error, bool json);

}  // namespace meadow::apps
