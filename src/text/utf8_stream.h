// Whole code points out of bytes that arrive in any portions.
// Thread rule: one thread. Owns at most three held-back bytes.
#pragma once
#include <string>
#include <string_view>

namespace meadow::text {

// What push() and flush() return, put together, is the input with every ill-formed sequence
// replaced by U+FFFD (one for each maximal part, as Unicode recommends), however the input was cut.
class Utf8Stream {
 public:
  // The code points that are complete now. Keeps back only a beginning that may still become one.
  std::string push(std::string_view bytes);
  // What was kept back, as U+FFFD; empties the stream.
  std::string flush();

 private:
  std::string held_;
};

}  // namespace meadow::text
