// IEEE arithmetic on the threads that compute: rounding to nearest even, subnormals kept. A library
// that was built with fast-math may have turned that off for the whole process as it was loaded.
// Thread rule: acts on the calling thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace meadow::kernels {

// A few cycles when nothing is to be changed.
inline void use_ieee_arithmetic() {
#if defined(__x86_64__)
  constexpr uint32_t kFlushToZero = 0x8000, kSubnormalsAreZero = 0x0040, kRounding = 0x6000;
  constexpr uint32_t kAll = kFlushToZero | kSubnormalsAreZero | kRounding;
  if (const uint32_t state = _mm_getcsr(); (state & kAll) != 0) [[unlikely]]
    _mm_setcsr(state & ~kAll);
#elif defined(__aarch64__)
  constexpr uint64_t kFlushToZero = 1u << 24, kRounding = 3u << 22, kAll = kFlushToZero | kRounding;
  uint64_t state;
  asm volatile("mrs %0, fpcr" : "=r"(state));
  if ((state & kAll) != 0) [[unlikely]] {
    asm volatile("msr fpcr, %0" : : "r"(state & ~kAll));
  }
#endif
}

// pool.run() with IEEE arithmetic on every thread.
template <class Body>
void run_ieee(ThreadPool& pool, int64_t items, int64_t chunk, const Body& body) {
  pool.run(static_cast<size_t>(items), static_cast<size_t>(chunk),
           [&body](size_t begin, size_t end, int worker) {
             use_ieee_arithmetic();
             body(static_cast<int64_t>(begin), static_cast<int64_t>(end), worker);
           });
}

}  // namespace meadow::kernels
