// The key-value part of a model file, left where it lies: strings and arrays are views into the
// source, so that a vocabulary of 250,000 tokens costs no memory here.
// Thread rule: immutable after construction; any thread.
// Ownership: all views are valid as long as the ModelFile (its Source) lives; copy what must stay.
#pragma once
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace meadow::format {

// Numbers as in the file.
enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
// "u32", "string", …
std::string_view name(ValueType type);
// Bytes of one value in the file; 0 for strings and arrays, which say their length themselves.
size_t fixed_bytes(ValueType type);

// One value, checked by the reader: `bytes` holds exactly what type, element and count say.
struct Value {
  ValueType type = ValueType::kU8;
  ValueType element = ValueType::kU8;  // of an array
  uint64_t count = 1;                  // elements of an array
  ByteView bytes;                      // number: little-endian; string: text; array: its elements
};

// Array of strings, read in order: each is a 64-bit length and its bytes.
class StringArray {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    explicit Iterator(const uint8_t* at) : at_(at) {}
    std::string_view operator*() const {
      return {reinterpret_cast<const char*>(at_ + sizeof(uint64_t)), length()};
    }
    Iterator& operator++() {
      at_ += sizeof(uint64_t) + length();
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    size_t length() const {
      uint64_t n;
      std::memcpy(&n, at_, sizeof n);
      return n;
    }
    const uint8_t* at_;
  };

  StringArray() = default;
  StringArray(ByteView bytes, size_t count) : bytes_(bytes), count_(count) {}
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Iterator begin() const { return Iterator(bytes_.data()); }
  Iterator end() const { return Iterator(bytes_.data() + bytes_.size()); }

 private:
  ByteView bytes_;
  size_t count_ = 0;
};

// Array of numbers of any integer type that fits in T (int64_t), or of f32/f64 (float).
template <class T>
class NumberArray {
 public:
  NumberArray() = default;
  NumberArray(const Value& value) : value_(value) {}
  size_t size() const { return value_.bytes.empty() ? 0 : value_.count; }
  bool empty() const { return size() == 0; }
  T operator[](size_t index) const;  // index < size()

 private:
  Value value_;
};
using IntegerArray = NumberArray<int64_t>;
using FloatArray = NumberArray<float>;

class Metadata {
 public:
  struct Entry {
    std::string_view key;
    Value value;
  };

  Metadata() = default;
  // `source` names the file in errors. Keys are unique (the reader has checked).
  Metadata(std::string source, std::vector<Entry> entries);

  bool has(std::string_view key) const { return find(key) != nullptr; }
  // nullptr if there is none.
  const Value* find(std::string_view key) const;
  // In the file's order.
  std::span<const Entry> entries() const { return entries_; }

  // kNotFound without the key; kCorrupt if it has another type or does not fit. u64 takes every
  // integer type, f32 both float types.
  Result<uint64_t> u64(std::string_view key) const;
  Result<float> f32(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  Result<std::string_view> string(std::string_view key) const;
  Result<StringArray> strings(std::string_view key) const;
  Result<IntegerArray> integers(std::string_view key) const;
  Result<FloatArray> floats(std::string_view key) const;

  // As above, `otherwise` when the key is not there; a wrong type is still an error.
  Result<uint64_t> u64_or(std::string_view key, uint64_t otherwise) const;
  Result<float> f32_or(std::string_view key, float otherwise) const;
  Result<bool> boolean_or(std::string_view key, bool otherwise) const;
  Result<std::string_view> string_or(std::string_view key, std::string_view otherwise) const;

  // Name of the file, for the errors of whoever interprets the values.
  const std::string& source() const { return source_; }

 private:
  Result<const Value*> typed(std::string_view key, ValueType type) const;
  Result<const Value*> array(std::string_view key) const;
  std::unexpected<Error> wrong_type(std::string_view key, std::string_view expected) const;

  std::string source_;
  std::vector<Entry> entries_;
  std::map<std::string_view, size_t> by_key_;
};

// `text` as a terminal may show it: bytes that are not UTF-8 and characters that a terminal would
// obey become \xNN; cut, with an ellipsis, after `limit` bytes.
std::string printable(std::string_view text, size_t limit);
// The same in single quotes, for errors; at most 80 bytes of it.
std::string in_quotes(std::string_view text);

}  // namespace meadow::format
