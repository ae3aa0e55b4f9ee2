// Typed, bounded reading of one architecture's metadata keys, "<architecture>.<key>".
// Thread rule: pure functions over the metadata it borrows.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/metadata.h"

namespace meadow::model {

class Keys {
 public:
  Keys(const format::Metadata& metadata, std::string architecture)
      : metadata_(metadata), architecture_(std::move(architecture)) {}

  const std::string& architecture() const { return architecture_; }
  bool has(std::string_view key) const { return metadata_.has(full(key)); }

  // An integer in [1, most]. kCorrupt if missing, of another type or outside.
  Result<int64_t> count(std::string_view key, int64_t most) const;
  // The same, or `otherwise` if there is no such key.
  Result<int64_t> count_or(std::string_view key, int64_t most, int64_t otherwise) const;
  // A finite number > 0. kCorrupt as above.
  Result<float> positive(std::string_view key) const;
  Result<float> positive_or(std::string_view key, float otherwise) const;
  Result<std::string> text_or(std::string_view key, std::string_view otherwise) const;

 private:
  std::string full(std::string_view key) const { return architecture_ + "." + std::string(key); }

  const format::Metadata& metadata_;
  std::string architecture_;
};

}  // namespace meadow::model
