#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "base/check.h"

namespace meadow {
namespace {

// How long a thread looks for work, or for the end of a helper's last chunk, before it sleeps. The
// parts of a block follow each other within microseconds, and a wake-up costs tens of them.
constexpr std::chrono::microseconds kSpin{50};
// For so long of it without letting others run.
constexpr std::chrono::microseconds kUnyielding{5};
// Pauses between two looks at the clock.
constexpr int kPauses = 32;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits for ready() without sleeping, for about kSpin at most. On a machine with more threads than
// processors the one that is waited for may not be running: after a moment, yielding lets it.
template <class Ready>
bool spin(Ready ready) {
  const auto start = std::chrono::steady_clock::now();
  for (bool yields = false;;) {
    for (int i = 0; i < kPauses; i++) {
      if (ready()) return true;
      pause();
    }
    const auto passed = std::chrono::steady_clock::now() - start;
    if (passed >= kSpin) return ready();
    if (yields) std::this_thread::yield();
    yields = passed >= kUnyielding;
  }
}

}  // namespace

// The gate says which job is open and how many helpers are in it, in one word, so that a helper
// enters only while the job runs, and the caller leaves only when nobody is inside. A helper that
// the machine has not let run in time finds it closed; nobody waits for it.
struct ThreadPool::Impl {
  static constexpr uint32_t kInside = 0xffff, kOpen = 0x10000, kJob = 0x20000;  // counts from there

  alignas(64) std::atomic<uint32_t> gate{0};
  std::atomic<int> sleepers{0};  // helpers that wait for the gate to change
  std::atomic<bool> stop{false};
  // Where each thread begins: threads that walk through rows of their own use what the processor
  // fetched ahead. Whoever is done goes on with the others' parts.
  struct alignas(64) Range {
    std::atomic<size_t> next{0};
    size_t end = 0;
  };
  // Of the open job; written before the gate opens.
  alignas(64) const FunctionRef<void(size_t, size_t, int)>* body = nullptr;
  size_t chunk = 1;
  std::vector<Range> ranges;  // by worker
  std::vector<std::thread> threads;

  void set_ranges(size_t items) {
    const size_t n = ranges.size(), share = items / n, more = items % n;
    size_t begin = 0;
    for (size_t i = 0; i < n; i++) {
      ranges[i].next.store(begin, std::memory_order_relaxed);
      begin += share + (i < more ? 1 : 0);
      ranges[i].end = begin;
    }
  }

  void work(int worker) {
    const size_t n = ranges.size(), own = static_cast<size_t>(worker);
    for (size_t i = 0; i < n; i++) {
      Range& range = ranges[own + i < n ? own + i : own + i - n];
      while (range.next.load(std::memory_order_relaxed) < range.end) {
        const size_t begin = range.next.fetch_add(chunk, std::memory_order_relaxed);
        if (begin >= range.end) break;
        (*body)(begin, std::min(range.end, begin + chunk), worker);
      }
    }
  }

  void open_gate() {
    gate.store((gate.load(std::memory_order_relaxed) / kJob + 1) * kJob + kOpen);
    // Sequentially consistent with the helper's count of itself and its look at the gate.
    if (sleepers.load() > 0) gate.notify_all();
  }

  void close_gate() {
    uint32_t now = gate.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
    const auto empty = [&] {
      now = gate.load(std::memory_order_acquire);
      return (now & kInside) == 0;
    };
    if ((now & kInside) == 0 || spin(empty)) return;
    while (!empty()) gate.wait(now, std::memory_order_acquire);
  }

  bool enter() {
    uint32_t now = gate.load(std::memory_order_relaxed);
    while (now & kOpen)
      if (gate.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) return true;
    return false;
  }

  void leave() {
    const uint32_t before = gate.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & kInside) == 1 && !(before & kOpen)) gate.notify_all();  // the caller may sleep
  }

  void helper(int worker) {
    uint32_t seen = 0;
    const auto new_job = [&] {
      return stop.load(std::memory_order_relaxed) ||
             gate.load(std::memory_order_relaxed) / kJob != seen;
    };
    for (;;) {
      if (!spin(new_job)) {
        sleepers.fetch_add(1);
        for (uint32_t now = gate.load(); now / kJob == seen && !stop.load(); now = gate.load())
          gate.wait(now);
        sleepers.fetch_sub(1);
      }
      if (stop.load()) return;
      seen = gate.load(std::memory_order_relaxed) / kJob;
      if (!enter()) continue;
      work(worker);
      leave();
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  MEADOW_CHECK(threads >= 1 && threads < static_cast<int>(Impl::kInside));
  impl_->ranges = std::vector<Impl::Range>(static_cast<size_t>(threads));
  for (int i = 1; i < threads; i++)
    impl_->threads.emplace_back([impl = impl_.get(), i] { impl->helper(i); });
}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true);
  impl_->gate.fetch_add(Impl::kJob);
  impl_->gate.notify_all();
  for (auto& t : impl_->threads) t.join();
}

int ThreadPool::size() const { return static_cast<int>(impl_->threads.size()) + 1; }

Result<void> ThreadPool::pin() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return fail(Code::kPermissionDenied, "which processors may be used: {}", std::strerror(errno));
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  if (cpus.size() < static_cast<size_t>(size()))
    return fail(Code::kInvalidArgument,
                "{} threads cannot have a processor each: this process may use {}; take fewer "
                "threads or do not pin",
                size(), cpus.size());
  const auto tie = [&](size_t helper, const cpu_set_t& set) {
    return ::pthread_setaffinity_np(impl_->threads[helper].native_handle(), sizeof set, &set);
  };
  for (size_t i = 0; i < impl_->threads.size(); i++) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[i + 1], &one);
    if (const int error = tie(i, one); error != 0) {
      for (size_t j = 0; j < i; j++) tie(j, allowed);
      return fail(Code::kPermissionDenied, "a thread cannot be tied to processor {}: {}",
                  cpus[i + 1], std::strerror(error));
    }
  }
  return {};
}

void ThreadPool::run(size_t items, size_t chunk, FunctionRef<void(size_t, size_t, int)> body) {
  if (items == 0) return;
  chunk = std::max<size_t>(chunk, 1);
  Impl& p = *impl_;
  if (p.threads.empty() || items <= chunk) {
    for (size_t i = 0; i < items; i += chunk) body(i, std::min(items, i + chunk), 0);
    return;
  }
  p.body = &body;
  p.chunk = chunk;
  p.set_ranges(items);
  p.open_gate();
  p.work(0);
  p.close_gate();
}

}  // namespace meadow
