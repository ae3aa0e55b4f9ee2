// Every element type that GGUF files name, with its layout: what a reader needs to find a tensor's
// end. What Meadow computes with is the smaller set in base/dtype.h.
// Thread rule: constants.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace meadow::format {

// Rows are blocks of `block_values` values in `block_bytes` bytes.
struct GgmlType {
  uint32_t number;  // in the file
  std::string_view name;
  int64_t block_values;
  int64_t block_bytes;
};

// nullptr for a number that no GGUF version gives a layout.
const GgmlType* ggml_type(uint32_t number);
// The type's name, or "type 77".
std::string ggml_type_name(uint32_t number);
// "F32, F16, …": what this version of Meadow computes with, for errors.
std::string supported_type_names();

}  // namespace meadow::format
