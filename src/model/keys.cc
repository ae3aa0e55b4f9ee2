#include "model/keys.h"

#include <cmath>

namespace meadow::model {

Result<int64_t> Keys::count(std::string_view key, int64_t most) const {
  const std::string name = full(key);
  if (!metadata_.has(name))
    return fail(Code::kCorrupt, "{}: no key {}, which the architecture needs", metadata_.source(),
                name);
  MEADOW_TRY(uint64_t value, metadata_.u64(name));
  if (value < 1 || value > static_cast<uint64_t>(most))
    return fail(Code::kCorrupt, "{}: {} is {}; expected 1 to {}", metadata_.source(), name, value,
                most);
  return static_cast<int64_t>(value);
}

Result<int64_t> Keys::count_or(std::string_view key, int64_t most, int64_t otherwise) const {
  if (!has(key)) return otherwise;
  return count(key, most);
}

Result<float> Keys::positive(std::string_view key) const {
  const std::string name = full(key);
  if (!metadata_.has(name))
    return fail(Code::kCorrupt, "{}: no key {}, which the architecture needs", metadata_.source(),
                name);
  MEADOW_TRY(float value, metadata_.f32(name));
  if (!std::isfinite(value) || value <= 0)
    return fail(Code::kCorrupt, "{}: {} is {}; expected a finite number above 0",
                metadata_.source(), name, value);
  return value;
}

Result<float> Keys::positive_or(std::string_view key, float otherwise) const {
  if (!has(key)) return otherwise;
  return positive(key);
}

Result<std::string> Keys::text_or(std::string_view key, std::string_view otherwise) const {
  MEADOW_TRY(std::string_view value, metadata_.string_or(full(key), otherwise));
  return std::string(value);
}

}  // namespace meadow::model
