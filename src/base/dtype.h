// Element types of stored tensors and how their rows are laid out.
// Thread rule: constants.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace meadow {

// A row is a sequence of blocks of `block_values` values in `block_bytes` bytes, little-endian, as
// ggml lays them out.
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kMXFP4
};

struct DTypeInfo {
  DType type;
  std::string_view name;  // as people write it: "Q4_1"
  uint32_t ggml_type;     // number in GGUF files
  int64_t block_values;
  int64_t block_bytes;
};

inline constexpr DTypeInfo kDTypes[] = {
    {DType::kF32, "F32", 0, 1, 4},        {DType::kF16, "F16", 1, 1, 2},
    {DType::kBF16, "BF16", 30, 1, 2},     {DType::kQ8_0, "Q8_0", 8, 32, 34},
    {DType::kQ4_0, "Q4_0", 2, 32, 18},    {DType::kQ4_1, "Q4_1", 3, 32, 20},
    {DType::kQ5_0, "Q5_0", 6, 32, 22},    {DType::kQ5_1, "Q5_1", 7, 32, 24},
    {DType::kQ2_K, "Q2_K", 10, 256, 84},  {DType::kQ3_K, "Q3_K", 11, 256, 110},
    {DType::kQ4_K, "Q4_K", 12, 256, 144}, {DType::kQ5_K, "Q5_K", 13, 256, 176},
    {DType::kQ6_K, "Q6_K", 14, 256, 210}, {DType::kIQ4_NL, "IQ4_NL", 20, 32, 18},
    {DType::kMXFP4, "MXFP4", 39, 32, 17},
};

constexpr const DTypeInfo& info(DType type) { return kDTypes[static_cast<int>(type)]; }

constexpr std::optional<DType> dtype_of_ggml(uint32_t ggml_type) {
  for (const DTypeInfo& t : kDTypes)
    if (t.ggml_type == ggml_type) return t.type;
  return std::nullopt;
}

// Bytes of a row of `values` values; `values` is a multiple of the type's block_values.
constexpr int64_t row_bytes(DType type, int64_t values) {
  return values / info(type).block_values * info(type).block_bytes;
}

}  // namespace meadow
