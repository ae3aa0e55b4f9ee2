// Handles that operations work on. A handle names storage that its Ops owns, on whatever device
// that is; only Ops::write and Ops::read move values between host and device. Thread rule: values.
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace meadow::compute {

// f32 [d, n], contiguous: n rows of d values. Valid until Ops::reset().
struct Tensor {
  int32_t id = -1;
  int64_t d = 0;
  int64_t n = 0;
};

// A matrix [k, m] of model weights: m rows of k values in the file's own type. Valid while its Ops
// lives. A vector is a matrix with m = 1. A default Weight is absent (an optional bias, say).
struct Weight {
  int32_t id = -1;
  int64_t k = 0;
  int64_t m = 0;

  bool present() const { return id >= 0; }
};

// One page of cache memory: keys and values of 64 positions of one block.
struct Page {
  void* memory = nullptr;
};

// What the pages of a cache hold; the same for every block of a model.
struct CacheShape {
  DType type = DType::kF16;  // kF16, kF32 or kQ8_0
  int64_t head_dim = 0;
  int64_t n_head_kv = 0;
};

}  // namespace meadow::compute
