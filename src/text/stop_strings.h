// Finds strings that end an answer in text that arrives in portions, across their borders.
// Thread rule: one thread. Owns the strings and a held-back text shorter than the longest of them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace meadow::text {

class StopStrings {
 public:
  static constexpr size_t kMaxStrings = 64;
  static constexpr size_t kMaxBytes = 4096;  // of one string

  // kInvalidArgument for an empty string, too many, or one too long. No string at all is fine.
  static Result<StopStrings> create(std::vector<std::string> stops);

  // What may be shown now: everything before the stop string that ends first, without what could
  // still be the beginning of one. After a stop, nothing.
  std::string push(std::string_view text);
  // At the end of an answer that no stop string ended: what was held back.
  std::string flush();
  bool stopped() const { return stopped_; }

 private:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  std::vector<std::string> stops_;  // the longest first
  std::string held_;
  bool stopped_ = false;
};

}  // namespace meadow::text
