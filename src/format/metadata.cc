#include "format/metadata.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace meadow::format {
namespace {

template <class T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);  // the host is little-endian, as the file is
  return value;
}

bool is_integer(ValueType type) {
  switch (type) {
    case ValueType::kF32:
    case ValueType::kF64:
    case ValueType::kBool:
    case ValueType::kString:
    case ValueType::kArray:
      return false;
    default:
      return true;
  }
}

// An integer of any type; nullopt for a u64 that does not fit.
std::optional<int64_t> integer_at(ValueType type, const uint8_t* at) {
  switch (type) {
    case ValueType::kU8:
      return load<uint8_t>(at);
    case ValueType::kI8:
      return load<int8_t>(at);
    case ValueType::kU16:
      return load<uint16_t>(at);
    case ValueType::kI16:
      return load<int16_t>(at);
    case ValueType::kU32:
      return load<uint32_t>(at);
    case ValueType::kI32:
      return load<int32_t>(at);
    case ValueType::kI64:
      return load<int64_t>(at);
    case ValueType::kU64: {
      const auto value = load<uint64_t>(at);
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

// Bytes of the UTF-8 character at the start of `text` (not empty); 0 if there is none, or one that
// a terminal obeys instead of showing: controls, C1 controls, changes of direction.
size_t printable_character(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return first >= 0x20 && first != 0x7f && first != '\\' ? 1 : 0;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || length > text.size()) return 0;
  uint32_t point = first & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) {
    const auto next = static_cast<uint8_t>(text[i]);
    if ((next & 0xc0) != 0x80) return 0;
    point = point << 6 | (next & 0x3f);
  }
  static constexpr uint32_t kLeast[] = {0xa0, 0x800, 0x10000};  // of 2, 3 and 4 bytes
  if (point < kLeast[length - 2] || point > 0x10ffff) return 0;
  if ((point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069)) return 0;
  return point >= 0xd800 && point < 0xe000 ? 0 : length;
}

// The element type of an array, or the type itself.
std::string type_name(const Value& value) {
  if (value.type != ValueType::kArray) return std::string(name(value.type));
  return fmt::format("array of {}", name(value.element));
}

}  // namespace

std::string_view name(ValueType type) {
  static constexpr std::string_view kNames[] = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                "i32", "f32", "bool", "string", "array",
                                                "u64", "i64", "f64"};
  const auto index = static_cast<uint32_t>(type);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

size_t fixed_bytes(ValueType type) {
  static constexpr uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto index = static_cast<uint32_t>(type);
  return index < std::size(kBytes) ? kBytes[index] : 0;
}

template <>
int64_t NumberArray<int64_t>::operator[](size_t index) const {
  MEADOW_CHECK(index < size());
  return *integer_at(value_.element, value_.bytes.data() + index * fixed_bytes(value_.element));
}

template <>
float NumberArray<float>::operator[](size_t index) const {
  MEADOW_CHECK(index < size());
  const uint8_t* at = value_.bytes.data() + index * fixed_bytes(value_.element);
  return value_.element == ValueType::kF64 ? static_cast<float>(load<double>(at)) : load<float>(at);
}

Metadata::Metadata(std::string source, std::vector<Entry> entries)
    : source_(std::move(source)), entries_(std::move(entries)) {
  for (size_t i = 0; i < entries_.size(); i++)
    MEADOW_CHECK(by_key_.emplace(entries_[i].key, i).second);
}

const Value* Metadata::find(std::string_view key) const {
  const auto at = by_key_.find(key);
  return at == by_key_.end() ? nullptr : &entries_[at->second].value;
}

std::unexpected<Error> Metadata::wrong_type(std::string_view key, std::string_view expected) const {
  const Value* value = find(key);
  if (value == nullptr)
    return fail(Code::kNotFound, "{}: metadata has no key {}; it should be a {}", source_,
                in_quotes(key), expected);
  return fail(Code::kCorrupt, "{}: metadata key {}: expected {}, got {}", source_, in_quotes(key),
              expected, type_name(*value));
}

Result<const Value*> Metadata::typed(std::string_view key, ValueType type) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != type) return wrong_type(key, name(type));
  return value;
}

Result<const Value*> Metadata::array(std::string_view key) const {
  return typed(key, ValueType::kArray);
}

Result<uint64_t> Metadata::u64(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || !is_integer(value->type)) return wrong_type(key, "integer");
  if (value->type == ValueType::kU64) return load<uint64_t>(value->bytes.data());
  const int64_t number = *integer_at(value->type, value->bytes.data());
  if (number < 0)
    return fail(Code::kCorrupt, "{}: metadata key {}: expected a number of at least 0, got {}",
                source_, in_quotes(key), number);
  return static_cast<uint64_t>(number);
}

Result<float> Metadata::f32(std::string_view key) const {
  const Value* value = find(key);
  if (value != nullptr && value->type == ValueType::kF32) return load<float>(value->bytes.data());
  if (value != nullptr && value->type == ValueType::kF64)
    return static_cast<float>(load<double>(value->bytes.data()));
  return wrong_type(key, "f32");
}

Result<bool> Metadata::boolean(std::string_view key) const {
  MEADOW_TRY(const Value* value, typed(key, ValueType::kBool));
  return value->bytes[0] != 0;
}

Result<std::string_view> Metadata::string(std::string_view key) const {
  MEADOW_TRY(const Value* value, typed(key, ValueType::kString));
  return as_text(value->bytes);
}

Result<StringArray> Metadata::strings(std::string_view key) const {
  MEADOW_TRY(const Value* value, array(key));
  if (value->element != ValueType::kString) return wrong_type(key, "array of string");
  return StringArray(value->bytes, value->count);
}

Result<IntegerArray> Metadata::integers(std::string_view key) const {
  MEADOW_TRY(const Value* value, array(key));
  if (!is_integer(value->element)) return wrong_type(key, "array of integers");
  if (value->element == ValueType::kU64)
    for (uint64_t i = 0; i < value->count; i++)
      if (!integer_at(value->element, value->bytes.data() + i * sizeof(uint64_t)))
        return fail(Code::kCorrupt, "{}: metadata key {}: element {} is above {}", source_,
                    in_quotes(key), i, INT64_MAX);
  return IntegerArray(*value);
}

Result<FloatArray> Metadata::floats(std::string_view key) const {
  MEADOW_TRY(const Value* value, array(key));
  if (value->element != ValueType::kF32 && value->element != ValueType::kF64)
    return wrong_type(key, "array of f32");
  return FloatArray(*value);
}

Result<uint64_t> Metadata::u64_or(std::string_view key, uint64_t otherwise) const {
  return has(key) ? u64(key) : otherwise;
}
Result<float> Metadata::f32_or(std::string_view key, float otherwise) const {
  return has(key) ? f32(key) : otherwise;
}
Result<bool> Metadata::boolean_or(std::string_view key, bool otherwise) const {
  return has(key) ? boolean(key) : otherwise;
}
Result<std::string_view> Metadata::string_or(std::string_view key,
                                             std::string_view otherwise) const {
  return has(key) ? string(key) : otherwise;
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = printable_character(text.substr(at));
    if (at + std::max<size_t>(length, 1) > limit) return out + "…";
    if (length > 0)
      out += text.substr(at, length);
    else
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[at]));
    at += std::max<size_t>(length, 1);
  }
  return out;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text, 80) + "'"; }

}  // namespace meadow::format
