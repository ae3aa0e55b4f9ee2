#include "format/gguf_writer.h"

#include <fstream>

namespace meadow::format {
namespace {

template <class T>
Bytes payload(T value) {
  Bytes out;
  append(out, value);
  return out;
}

template <class T>
Bytes array_payload(ValueType element, std::span<const T> values) {
  Bytes out;
  append(out, static_cast<uint32_t>(element));
  append(out, static_cast<uint64_t>(values.size()));
  for (const T value : values) append(out, value);
  return out;
}

void pad(Bytes& out, uint64_t alignment) {
  while (out.size() % alignment != 0) out.push_back(0);
}

}  // namespace

void append_string(Bytes& out, std::string_view text) {
  append(out, static_cast<uint64_t>(text.size()));
  out.insert(out.end(), text.begin(), text.end());
}

GgufWriter::GgufWriter(uint32_t version, uint32_t alignment)
    : version_(version), alignment_(alignment) {
  if (alignment != 32) add_u32("general.alignment", alignment);
}

void GgufWriter::add_raw(std::string_view key, ValueType type, ByteView value) {
  append_string(metadata_, key);
  append(metadata_, static_cast<uint32_t>(type));
  metadata_.insert(metadata_.end(), value.begin(), value.end());
  entries_++;
}

void GgufWriter::add_u32(std::string_view key, uint32_t value) {
  add_raw(key, ValueType::kU32, payload(value));
}
void GgufWriter::add_i32(std::string_view key, int32_t value) {
  add_raw(key, ValueType::kI32, payload(value));
}
void GgufWriter::add_u64(std::string_view key, uint64_t value) {
  add_raw(key, ValueType::kU64, payload(value));
}
void GgufWriter::add_f32(std::string_view key, float value) {
  add_raw(key, ValueType::kF32, payload(value));
}
void GgufWriter::add_bool(std::string_view key, bool value) {
  add_raw(key, ValueType::kBool, payload(static_cast<uint8_t>(value)));
}

void GgufWriter::add_string(std::string_view key, std::string_view value) {
  Bytes out;
  append_string(out, value);
  add_raw(key, ValueType::kString, out);
}

void GgufWriter::add_strings(std::string_view key, std::span<const std::string> values) {
  Bytes out;
  append(out, static_cast<uint32_t>(ValueType::kString));
  append(out, static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) append_string(out, value);
  add_raw(key, ValueType::kArray, out);
}

void GgufWriter::add_i32s(std::string_view key, std::span<const int32_t> values) {
  add_raw(key, ValueType::kArray, array_payload(ValueType::kI32, values));
}
void GgufWriter::add_f32s(std::string_view key, std::span<const float> values) {
  add_raw(key, ValueType::kArray, array_payload(ValueType::kF32, values));
}

void GgufWriter::add_tensor(std::string_view name, uint32_t ggml_type,
                            std::span<const int64_t> shape, Bytes data) {
  tensors_.push_back({std::string(name), ggml_type,
                      std::vector<int64_t>(shape.begin(), shape.end()), std::move(data)});
}

Bytes GgufWriter::bytes() const {
  Bytes out;
  for (const char c : std::string_view("GGUF")) out.push_back(static_cast<uint8_t>(c));
  append(out, version_);
  append(out, static_cast<uint64_t>(tensors_.size()));
  append(out, entries_);
  out.insert(out.end(), metadata_.begin(), metadata_.end());
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    append_string(out, tensor.name);
    append(out, static_cast<uint32_t>(tensor.shape.size()));
    for (const int64_t size : tensor.shape) append(out, size);
    append(out, tensor.ggml_type);
    append(out, offset);
    offset += (tensor.data.size() + alignment_ - 1) / alignment_ * alignment_;
  }
  for (const Tensor& tensor : tensors_) {
    pad(out, alignment_);
    out.insert(out.end(), tensor.data.begin(), tensor.data.end());
  }
  return out;
}

Result<void> GgufWriter::write(const std::string& path) const {
  const Bytes all = bytes();
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size()));
  out.close();
  if (!out) return fail(Code::kUnavailable, "{}: cannot write {} bytes", path, all.size());
  return {};
}

}  // namespace meadow::format
