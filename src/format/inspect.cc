#include "format/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "format/ggml_types.h"

namespace meadow::format {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLongKey = 200;    // bytes of a key that text shows
constexpr size_t kShortArray = 16;  // elements that JSON shows in full
constexpr size_t kLongText = 4096;  // bytes of a string that JSON shows

struct Sum {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  void add(const TensorInfo& tensor) {
    tensors++;
    bytes += tensor.bytes;
  }
  bool operator==(const Sum&) const = default;
};

struct Inspection {
  std::string architecture;
  Digest fingerprint;
  std::map<uint32_t, Sum> types;  // by ggml type
  std::map<int32_t, Sum> blocks;
  std::map<int32_t, Digest> hashes;
  Sum others;
  bool supported = true;
};

Result<Inspection> inspect(const ModelFile& file, bool block_hashes) {
  Inspection out;
  out.architecture =
      file.metadata().string_or("general.architecture", "unknown").value_or("unknown");
  MEADOW_TRY(out.fingerprint, file.fingerprint());
  for (const TensorInfo& tensor : file.tensors()) {
    out.types[tensor.ggml_type].add(tensor);
    out.supported &= dtype_of_ggml(tensor.ggml_type).has_value();
    const auto block = block_of(tensor.name);
    (block ? out.blocks[*block] : out.others).add(tensor);
  }
  if (block_hashes)
    for (const auto& [block, sum] : out.blocks) {
      MEADOW_TRY(out.hashes[block], file.block_hash(block));
    }
  return out;
}

// The shortest decimal that is this f32 (1e-05), not its value as a double (9.99999974e-06).
ordered_json float_json(const uint8_t* at) {
  float value;
  std::memcpy(&value, at, sizeof value);
  return std::isfinite(value) ? ordered_json(std::strtod(fmt::format("{}", value).c_str(), nullptr))
                              : ordered_json(nullptr);
}

ordered_json number_json(ValueType type, const uint8_t* at) {
  const auto load = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return ordered_json(value);
  };
  switch (type) {
    case ValueType::kU8:
      return load(uint8_t{});
    case ValueType::kI8:
      return load(int8_t{});
    case ValueType::kU16:
      return load(uint16_t{});
    case ValueType::kI16:
      return load(int16_t{});
    case ValueType::kU32:
      return load(uint32_t{});
    case ValueType::kI32:
      return load(int32_t{});
    case ValueType::kU64:
      return load(uint64_t{});
    case ValueType::kI64:
      return load(int64_t{});
    case ValueType::kF32:
      return float_json(at);
    case ValueType::kF64:
      return load(double{});
    case ValueType::kBool:
      return ordered_json(at[0] != 0);
    default:
      return nullptr;
  }
}

ordered_json value_json(const Value& value) {
  if (value.type == ValueType::kString)
    return std::string(as_text(value.bytes).substr(0, kLongText));
  if (value.type != ValueType::kArray) return number_json(value.type, value.bytes.data());
  if (value.count > kShortArray || value.element == ValueType::kArray)
    return {{"array_of", name(value.element)}, {"count", value.count}};
  ordered_json items = ordered_json::array();
  if (value.element == ValueType::kString)
    for (const std::string_view text : StringArray(value.bytes, value.count))
      items.push_back(std::string(text.substr(0, kLongText)));
  else
    for (uint64_t i = 0; i < value.count; i++)
      items.push_back(
          number_json(value.element, value.bytes.data() + i * fixed_bytes(value.element)));
  return items;
}

// Bytes as they are: a file may hold any.
std::string dumped(const ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

std::string value_text(const Value& value) {
  if (value.type == ValueType::kString) return in_quotes(as_text(value.bytes));
  if (value.type == ValueType::kArray && value.element == ValueType::kString)
    return fmt::format("{} strings", value.count);
  const ordered_json json = value_json(value);
  if (json.is_object()) return fmt::format("{} of {}", value.count, name(value.element));
  return dumped(json);
}

std::string size_text(uint64_t bytes) {
  return bytes < 10'000'000
             ? fmt::format("{} bytes", bytes)
             : fmt::format("{} bytes ({:.1f} MB)", bytes, static_cast<double>(bytes) / 1e6);
}

// One line for each run of equal blocks.
std::string blocks_text(const Inspection& inspection) {
  std::string out;
  const auto& blocks = inspection.blocks;
  for (auto first = blocks.begin(); first != blocks.end();) {
    auto next = first;
    int64_t last = first->first;
    for (++next; next != blocks.end() && next->first == last + 1 && next->second == first->second;
         ++next)
      last++;
    out += fmt::format("  {}:{}  {} tensors, {} each\n", first->first, last + 1,
                       first->second.tensors, size_text(first->second.bytes));
    first = next;
  }
  for (const auto& [block, hash] : inspection.hashes)
    out += fmt::format("  block {} sha256 {}\n", block, hex(hash));
  return out;
}

}  // namespace

Result<std::string> describe(const ModelFile& file, bool block_hashes) {
  MEADOW_TRY(const Inspection inspection, inspect(file, block_hashes));
  std::string out = fmt::format("{}\n", file.name());
  out += fmt::format("GGUF version {}, {}, alignment {}\n", file.version(),
                     size_text(file.file_bytes()), file.alignment());
  out += fmt::format("architecture  {}\n", printable(inspection.architecture, kLongKey));
  out += fmt::format("fingerprint   {}\n", hex(inspection.fingerprint));
  out += "metadata\n";
  for (const Metadata::Entry& entry : file.metadata().entries())
    out += fmt::format("  {} = {}\n", printable(entry.key, kLongKey), value_text(entry.value));
  out += "tensors by type\n";
  for (const auto& [type, sum] : inspection.types)
    out += fmt::format("  {:8} {} tensors, {}{}\n", ggml_type_name(type), sum.tensors,
                       size_text(sum.bytes),
                       dtype_of_ggml(type) ? "" : "  (not supported by this version)");
  out += "blocks\n" + blocks_text(inspection);
  out += fmt::format("  others  {} tensors, {}\n", inspection.others.tensors,
                     size_text(inspection.others.bytes));
  if (!inspection.supported)
    out += fmt::format("not every tensor can be computed with; supported are {}\n",
                       supported_type_names());
  return out;
}

Result<std::string> describe_json(const ModelFile& file, bool block_hashes) {
  MEADOW_TRY(const Inspection inspection, inspect(file, block_hashes));
  ordered_json json;
  json["file"] = file.name();
  json["file_bytes"] = file.file_bytes();
  json["gguf_version"] = file.version();
  json["alignment"] = file.alignment();
  json["architecture"] = inspection.architecture;
  json["supported"] = inspection.supported;
  json["fingerprint"] = hex(inspection.fingerprint);
  ordered_json& metadata = json["metadata"] = ordered_json::object();
  for (const Metadata::Entry& entry : file.metadata().entries())
    metadata.push_back({std::string(entry.key), value_json(entry.value)});
  ordered_json& types = json["types"] = ordered_json::array();
  for (const auto& [type, sum] : inspection.types)
    types.push_back({{"type", ggml_type_name(type)},
                     {"supported", dtype_of_ggml(type).has_value()},
                     {"tensors", sum.tensors},
                     {"bytes", sum.bytes}});
  ordered_json& blocks = json["blocks"] = ordered_json::array();
  for (const auto& [block, sum] : inspection.blocks) {
    ordered_json entry = {{"block", block}, {"tensors", sum.tensors}, {"bytes", sum.bytes}};
    if (const auto hash = inspection.hashes.find(block); hash != inspection.hashes.end())
      entry["hash"] = hex(hash->second);
    blocks.push_back(std::move(entry));
  }
  json["other_bytes"] = inspection.others.bytes;
  return dumped(json, 2);
}

}  // namespace meadow::format
