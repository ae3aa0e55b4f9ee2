// Writes GGUF files (little-endian), as tests and tools need them: metadata and tensors in the
// order they are added, everything in memory until it is written. Thread rule: one thread at a
// time. Ownership: copies what it is given.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "format/metadata.h"

namespace meadow::format {

class GgufWriter {
 public:
  // An alignment other than 32 is written as general.alignment.
  explicit GgufWriter(uint32_t version = 3, uint32_t alignment = 32);

  void add_u32(std::string_view key, uint32_t value);
  void add_i32(std::string_view key, int32_t value);
  void add_u64(std::string_view key, uint64_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  // Any value; `payload` is what stands after the type in the file and is not checked.
  void add_raw(std::string_view key, ValueType type, ByteView payload);

  // `shape` fastest first. `data` is not checked against it: hostile files are made here too.
  void add_tensor(std::string_view name, uint32_t ggml_type, std::span<const int64_t> shape,
                  Bytes data);

  // The whole file.
  Bytes bytes() const;
  // Writes the file, replacing what is there. kUnavailable if the disk refuses.
  Result<void> write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    uint32_t ggml_type;
    std::vector<int64_t> shape;
    Bytes data;
  };

  uint32_t version_;
  uint32_t alignment_;
  uint64_t entries_ = 0;
  Bytes metadata_;  // the entries as they stand in the file
  std::vector<Tensor> tensors_;
};

// Appends `value` as GGUF stores it: numbers little-endian, strings after their 64-bit length.
template <class T>
void append(Bytes& out, T value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}
void append_string(Bytes& out, std::string_view text);

}  // namespace meadow::format
