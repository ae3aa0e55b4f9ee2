// Simple quantisers: values to the bytes of a weight type, nearest value under the plainest choice
// of scale. For tests and tools; a model made for use deserves a quantiser that weighs errors.
// Thread rule: pure functions; any thread.
#pragma once
#include <span>

#include "base/bytes.h"
#include "base/dtype.h"

namespace meadow::format {

// row_bytes(type, values.size()) bytes. The values are finite and small enough for a scale in f16;
// their number is a multiple of the type's block.
Bytes quantise(DType type, std::span<const float> values);

}  // namespace meadow::format
