// Simple quantisers: values to the bytes of a weight type, nearest value under the plainest choice
// of scale. For tests and tools; a model made for use deserves a quantiser that weighs errors.
// Thread rule: pure functions; any thread.
#pragma once
#include <span>

#include "base/bytes.h"
#include "base/dtype.h"

namespace meadow::format {

// `values` finite and within what an f16 scale reaches, their number a multiple
// bytes.
Bytes quantise(DType type, std::span<const float> values);

}  // namespace meadow::format
