// What a person types into the chat, as messages and commands.
// Thread rule: one thread.
#pragma once
#include <optional>
#include <string>

namespace meadow::apps {

// Joins lines into messages: a line that ends in a backslash goes on, and everything between two
// lines that begin and end with """ is one message.
class MessageAssembler {
 public:
  // The message, once `line` completes one.
  std::optional<std::string> add(const std::string& line);
  // Whether a message is begun.
  bool pending() const { return quoted_ || continued_; }
  void clear();

 private:
  std::string text_;
  bool quoted_ = false;
  bool continued_ = false;
};

// Lines of stdin, read so that a signal interrupts the wait.
class LineReader {
 public:
  enum class Kind { kLine, kEnd, kInterrupted };
  struct Line {
    Kind kind;
    std::string text;
  };
  // Blocks until a line is complete, stdin ends, or SIGINT or SIGTERM has come.
  Line next();

 private:
  std::string buffer_;
  bool ended_ = false;
};

constexpr size_t kMaxMessageBytes = size_t{16} << 20;

}  // namespace meadow::apps
