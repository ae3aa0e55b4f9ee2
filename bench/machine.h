// What this machine could do at most, measured: how fast memory is read, and how many operations a
// second the instructions that the kernels live on give when nothing else is in the way.
// Thread rule: one caller; works on the pool that it is given. Owns nothing.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/thread_pool.h"
#include "kernels/target.h"

namespace meadow::bench {

// The instruction that a product spends its time in.
enum class Unit {
  kFloat,   // fused multiply-add in f32
  kNarrow,  // 8-bit times 8-bit: vpdpbusd, or maddubs and an addition
  kWide,    // 16-bit times 16-bit: vpdpwssd, or madd and an addition
};

// As docs/numerics.md has it: weights of at most 6 bits meet 8-bit activations, Q8_0 16-bit ones.
Unit unit_of(DType type);

// The instruction by name, "" where it is not known.
std::string_view instruction(Unit unit, kernels::Target target);

// GFLOP/s (GOP/s of the integer units; a multiply and an addition are two) of all threads of `pool`
// together, from registers alone. 0 where it is not known: scalar code, processors that are not
// x86.
double peak(Unit unit, kernels::Target target, ThreadPool& pool);

// GB/s that all threads together read from `memory`, which is larger than the caches: the best of
// plain loads and two distances of prefetch.
double stream(ByteView memory, ThreadPool& pool);

// Seconds that `work` takes.
template <class Work>
double seconds_of(const Work& work);

}  // namespace meadow::bench

#include <chrono>

template <class Work>
double meadow::bench::seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
