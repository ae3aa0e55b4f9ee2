// Stored values as f32, exactly as their format defines them.
// Thread rule: pure functions; any thread. Owns nothing.
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace meadow::kernels {

// row: k values of `type`, any alignment; k a multiple of its block_values.   out: f32 [k]
void dequantise_row(DType type, const uint8_t* row, int64_t k, float* out);

}  // namespace meadow::kernels
