#include "machine.h"

#include <algorithm>
#include <atomic>

#include "kernels/stream_read.h"

namespace meadow::bench {

using kernels::Target;

Unit unit_of(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return Unit::kFloat;
    case DType::kQ8_0:
      return Unit::kWide;
    default:
      return Unit::kNarrow;
  }
}

std::string_view instruction(Unit unit, Target target) {
  if (target == Target::kScalar || target == Target::kNeon) return "";
  if (unit == Unit::kFloat) return "fma";
  const bool vnni = target == Target::kAvx512Vnni;
  if (unit == Unit::kNarrow) return vnni ? "vpdpbusd" : "maddubs";
  return vnni ? "vpdpwssd" : "madd";
}

#if defined(__x86_64__)
namespace {

// Twelve independent chains of `Step` on registers 0 to 11, operands in 13 and 14, 15 free. The
// compiler knows the registers as xmm, whatever their width.
#define MEADOW_CHAINS(Name, Step, r)                                                            \
  void Name(int64_t times) {                                                                    \
    for (int64_t i = 0; i < times; i++)                                                         \
      asm volatile(Step(r, 0) Step(r, 1) Step(r, 2) Step(r, 3) Step(r, 4) Step(r, 5) Step(r, 6) \
                       Step(r, 7) Step(r, 8) Step(r, 9) Step(r, 10) Step(r, 11)                 \
                   :                                                                            \
                   :                                                                            \
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",    \
                     "xmm9", "xmm10", "xmm11", "xmm15");                                        \
    asm volatile("vzeroupper" ::: "memory");                                                    \
  }
#define MEADOW_ONE(op, r, i) op " %%" r "13, %%" r "14, %%" r #i "\n"
#define MEADOW_TWO(op, add, r, i) \
  op " %%" r "13, %%" r "14, %%" r "15\n" add " %%" r "15, %%" r #i ", %%" r #i "\n"
#define MEADOW_FMA(r, i) MEADOW_ONE("vfmadd231ps", r, i)
#define MEADOW_DPBUSD(r, i) MEADOW_ONE("vpdpbusd", r, i)
#define MEADOW_DPWSSD(r, i) MEADOW_ONE("vpdpwssd", r, i)
#define MEADOW_MADDUBS(r, i) MEADOW_TWO("vpmaddubsw", "vpaddw", r, i)
#define MEADOW_MADD(r, i) MEADOW_TWO("vpmaddwd", "vpaddd", r, i)

MEADOW_CHAINS(fma_256, MEADOW_FMA, "ymm")
MEADOW_CHAINS(fma_512, MEADOW_FMA, "zmm")
MEADOW_CHAINS(dpbusd_512, MEADOW_DPBUSD, "zmm")
MEADOW_CHAINS(dpwssd_512, MEADOW_DPWSSD, "zmm")
MEADOW_CHAINS(maddubs_256, MEADOW_MADDUBS, "ymm")
MEADOW_CHAINS(maddubs_512, MEADOW_MADDUBS, "zmm")
MEADOW_CHAINS(madd_256, MEADOW_MADD, "ymm")
MEADOW_CHAINS(madd_512, MEADOW_MADD, "zmm")

using Chains = void (*)(int64_t times);

Chains chains(Unit unit, Target target) {
  const bool vnni = target == Target::kAvx512Vnni, wide = vnni || target == Target::kAvx512;
  if (!wide && target != Target::kAvx2) return nullptr;
  if (unit == Unit::kFloat) return wide ? fma_512 : fma_256;
  if (unit == Unit::kNarrow) return vnni ? dpbusd_512 : wide ? maddubs_512 : maddubs_256;
  return vnni ? dpwssd_512 : wide ? madd_512 : madd_256;
}

// Of one of the twelve.
int operations(Unit unit, Target target) {
  const int bytes = target == Target::kAvx2 ? 32 : 64;
  const int factor = unit == Unit::kFloat ? 4 : unit == Unit::kNarrow ? 1 : 2;
  return 2 * bytes / factor;
}

}  // namespace

double peak(Unit unit, Target target, ThreadPool& pool) {
  const Chains run = chains(unit, target);
  if (run == nullptr) return 0;
  constexpr int64_t kTimes = 1000000;
  const auto threads = static_cast<size_t>(pool.size());
  const auto all = [&] {
    pool.run(threads, 1, [&](size_t begin, size_t end, int) {
      for (size_t i = begin; i < end; i++) run(kTimes);
    });
  };
  double best = 1e9;
  for (int i = 0; i < 3; i++) best = std::min(best, seconds_of(all));
  return static_cast<double>(kTimes * 12 * operations(unit, target)) *
         static_cast<double>(threads) / best / 1e9;
}
#else
double peak(Unit, Target, ThreadPool&) { return 0; }
#endif

double stream(ByteView memory, ThreadPool& pool) {
  static std::atomic<uint64_t> sink{0};  // keeps the reads
  double best = 0;
  for (const size_t ahead : {size_t{0}, size_t{4096}, size_t{8192}}) {
    const double taken = seconds_of([&] { sink ^= kernels::stream_read(memory, ahead, pool); });
    best = std::max(best, static_cast<double>(memory.size()) / taken / 1e9);
  }
  return best;
}

}  // namespace meadow::bench
