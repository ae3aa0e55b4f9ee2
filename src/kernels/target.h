// Which instruction set computes. All targets give the same bits (docs/numerics.md), so the choice
// is only one of speed. Thread rule: any thread may ask; force_target() before work begins or
// between calls. Owns one process-wide choice.
#pragma once
#include <string_view>
#include <vector>

#include "base/result.h"

namespace meadow::kernels {

enum class Target { kScalar, kNeon, kAvx2, kAvx512, kAvx512Vnni };

// "scalar", "neon", "avx2", "avx512", "avx512vnni".
std::string_view name(Target target);

// Targets that this build holds and this processor runs, slowest first; kScalar is always there.
std::vector<Target> runnable_targets();

// The one in use: the best runnable, or the one that the environment variable MEADOW_CPU names. A
// MEADOW_CPU that names none is ignored here (the bits are the same); check_target_choice() says
// so.
Target active_target();

// kInvalidArgument if MEADOW_CPU names no runnable target. For programs to call as they start.
Result<void> check_target_choice();

// Uses `target` from now on. kUnsupported if it is not runnable. No kernel may be running.
Result<void> force_target(Target target);

}  // namespace meadow::kernels
