#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace meadow {

struct ThreadPool::Impl {
  using Body = std::function<void(size_t, size_t, int)>;

  std::mutex mutex;
  std::condition_variable wake, done;
  uint64_t job = 0;   // guarded by mutex; a new number is a new job
  bool open = false;  // guarded by mutex; the current job takes helpers
  int running = 0;    // guarded by mutex; helpers in the current job
  bool stop = false;  // guarded by mutex
  const Body* body = nullptr;
  size_t items = 0, chunk = 1;
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> job_hint{0};  // lets a helper spin briefly for the next job
  std::atomic<int> running_hint{0};
  std::vector<std::thread> threads;

  void work(int worker) {
    for (;;) {
      const size_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= items) return;
      (*body)(begin, std::min(items, begin + chunk), worker);
    }
  }

  // Blocks of a model follow each other within microseconds; a sleep and a wake-up cost more than
  // that. The spin is bounded, so that an idle pool still sleeps.
  static constexpr int kSpins = 2000;
  template <class Ready>
  static void spin(Ready ready) {
    for (int i = 0; i < kSpins && !ready(); i++) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }

  void helper(int worker) {
    uint64_t seen = 0;
    for (;;) {
      spin([&] { return job_hint.load(std::memory_order_acquire) != seen; });
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stop || job != seen; });
        if (stop) return;
        seen = job;
        if (!open) continue;  // over already: the others did it all
        running_hint.store(++running, std::memory_order_relaxed);
      }
      work(worker);
      std::lock_guard lock(mutex);
      running_hint.store(--running, std::memory_order_release);
      if (running == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  MEADOW_CHECK(threads >= 1);
  for (int i = 1; i < threads; i++)
    impl_->threads.emplace_back([impl = impl_.get(), i] { impl->helper(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_all();
  for (auto& t : impl_->threads) t.join();
}

int ThreadPool::size() const { return static_cast<int>(impl_->threads.size()) + 1; }

void ThreadPool::run(size_t items, size_t chunk,
                     const std::function<void(size_t, size_t, int)>& body) {
  if (items == 0) return;
  chunk = std::max<size_t>(chunk, 1);
  Impl& p = *impl_;
  if (p.threads.empty() || items <= chunk) {
    for (size_t i = 0; i < items; i += chunk) body(i, std::min(items, i + chunk), 0);
    return;
  }
  {
    std::lock_guard lock(p.mutex);
    p.body = &body;
    p.items = items;
    p.chunk = chunk;
    p.next.store(0, std::memory_order_relaxed);
    p.open = true;
    p.job++;
    p.job_hint.store(p.job, std::memory_order_release);
  }
  p.wake.notify_all();
  p.work(0);
  // A helper that a busy machine has not let run yet is not waited for.
  {
    std::lock_guard lock(p.mutex);
    p.open = false;
    if (p.running == 0) return;
  }
  Impl::spin([&] { return p.running_hint.load(std::memory_order_acquire) == 0; });
  std::unique_lock lock(p.mutex);
  p.done.wait(lock, [&] { return p.running == 0; });
}

}  // namespace meadow
