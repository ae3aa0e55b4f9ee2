#include "kernels/stream_read.h"

#include <atomic>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace meadow::kernels {
namespace {

constexpr size_t kStep = 256;
using Read = uint64_t (*)(const uint8_t* p, size_t bytes, size_t ahead);

// Intrinsics, because the compiler's own vector types gave a quarter less (Zen 5, one thread: 28
// against 39 GB/s): a bound must not be lower than what kernels reach.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) uint64_t read_512(const uint8_t* p, size_t bytes, size_t ahead) {
  __m512i sums[4] = {};
  for (const uint8_t* end = p + bytes / kStep * kStep; p < end; p += kStep) {
    if (ahead != 0)
      for (int i = 0; i < 4; i++) __builtin_prefetch(p + ahead + 64 * i);
    for (int i = 0; i < 4; i++) sums[i] = _mm512_xor_si512(sums[i], _mm512_loadu_si512(p + 64 * i));
  }
  alignas(64) uint64_t words[8];
  _mm512_store_si512(words, _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]),
                                             _mm512_xor_si512(sums[2], sums[3])));
  uint64_t out = 0;
  for (const uint64_t word : words) out ^= word;
  return out;
}

__attribute__((target("avx2"))) uint64_t read_256(const uint8_t* p, size_t bytes, size_t ahead) {
  __m256i sums[4] = {};
  for (const uint8_t* end = p + bytes / kStep * kStep; p < end; p += kStep) {
    if (ahead != 0)
      for (int i = 0; i < 4; i++) __builtin_prefetch(p + ahead + 64 * i);
    const auto* lines = reinterpret_cast<const __m256i*>(p);
    for (int i = 0; i < 8; i++)
      sums[i % 4] = _mm256_xor_si256(sums[i % 4], _mm256_loadu_si256(lines + i));
  }
  alignas(32) uint64_t words[4];
  _mm256_store_si256(
      reinterpret_cast<__m256i*>(words),
      _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3])));
  return words[0] ^ words[1] ^ words[2] ^ words[3];
}
#endif

uint64_t read_any(const uint8_t* p, size_t bytes, size_t ahead) {
  uint64_t sums[kStep / 8] = {};
  for (const uint8_t* end = p + bytes / kStep * kStep; p < end; p += kStep) {
    if (ahead != 0)
      for (int i = 0; i < 4; i++) __builtin_prefetch(p + ahead + 64 * i);
    uint64_t words[kStep / 8];
    std::memcpy(words, p, kStep);
    for (size_t i = 0; i < kStep / 8; i++) sums[i] ^= words[i];
  }
  uint64_t out = 0;
  for (const uint64_t sum : sums) out ^= sum;
  return out;
}

Read widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read_512;
  if (__builtin_cpu_supports("avx2")) return read_256;
#endif
  return read_any;
}

}  // namespace

uint64_t stream_read(ByteView memory, size_t prefetch_ahead, ThreadPool& pool) {
  constexpr size_t kChunk = size_t{4} << 20;
  static const Read read = widest();
  std::atomic<uint64_t> sum{0};
  pool.run(memory.size() / kStep * kStep, kChunk, [&](size_t begin, size_t end, int) {
    sum ^= read(memory.data() + begin, end - begin, prefetch_ahead);
  });
  return sum;
}

}  // namespace meadow::kernels
