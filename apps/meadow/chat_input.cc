#include "meadow/chat_input.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "meadow/interrupt.h"

namespace meadow::apps {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

}  // namespace

void MessageAssembler::clear() {
  text_.clear();
  quoted_ = continued_ = false;
}

std::optional<std::string> MessageAssembler::add(const std::string& line) {
  std::string_view rest = line;
  if (!pending()) text_.clear();
  if (!pending() && rest.starts_with(kQuotes)) {
    quoted_ = true;
    rest.remove_prefix(kQuotes.size());
    if (rest.empty()) return std::nullopt;
  }
  if (quoted_) {
    if (!rest.ends_with(kQuotes)) {
      text_.append(rest).append("\n");
      return std::nullopt;
    }
    rest.remove_suffix(kQuotes.size());
    text_.append(rest);
    if (rest.empty() && text_.ends_with('\n')) text_.pop_back();
  } else if (rest.ends_with('\\')) {
    rest.remove_suffix(1);
    text_.append(rest).append("\n");
    continued_ = true;
    return std::nullopt;
  } else {
    text_.append(rest);
  }
  quoted_ = continued_ = false;
  return std::move(text_);
}

LineReader::Line LineReader::next() {
  while (true) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return {Kind::kLine, std::move(line)};
    }
    if (ended_) {
      if (buffer_.empty()) return {Kind::kEnd, {}};
      return {Kind::kLine, std::exchange(buffer_, {})};
    }
    if (!Interrupt::wait_for_stdin()) return {Kind::kInterrupted, {}};
    char bytes[4096];
    const ssize_t n = ::read(0, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || buffer_.size() > kMaxMessageBytes)
      ended_ = true;
    else
      buffer_.append(bytes, static_cast<size_t>(n));
  }
}

}  // namespace meadow::apps
