// Simple quantisers: values to the bytes of a weight type, nearest value under the plainest choice
// of scale. For tests and tools; a model made for use deserves a quantiser that weighs errors.
// Thread rule: pure functions; any thread.
#pragma once
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/dtype.h"

namespace meadow::format {

// Round to nearest even; too large becomes infinity, NaN stays NaN.
uint16_t f16_bits(float value);
uint16_t bf16_bits(float value);
float from_f16_bits(uint16_t bits);

// `values` finite, their number a multiple of the type's block: row_bytes(type, values.size())
// bytes.
Bytes quantise(DType type, std::span<const float> values);

}  // namespace meadow::format
