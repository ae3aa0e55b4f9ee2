// Reads memory and does nothing else: the bound of everything that streams weights, and so what
// decoding is measured against.
// Thread rule: a ThreadPool serves one call at a time. Owns nothing.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/thread_pool.h"

namespace meadow::kernels {

// Reads every whole 256 bytes of `memory` once, spread over the pool, and returns the exclusive or
// of their 64-bit words, so that no compiler leaves the reading out. `prefetch_ahead`: bytes that a
// prefetch instruction runs ahead of the loads; 0: none. Blocks until done.
uint64_t stream_read(ByteView memory, size_t prefetch_ahead, ThreadPool& pool);

}  // namespace meadow::kernels
