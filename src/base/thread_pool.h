// Data parallel loops for kernels: one caller, a fixed crew, chunks from a shared counter.
// Thread rule: run() from one thread at a time; size() from any. Owns its threads. They sleep when
// there is no work: an idle pool uses no processor time.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace meadow {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 means no thread is started. At least 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  // Calls body(begin, end, worker) for chunks of at most `chunk` items that cover [0, items);
  // worker is in [0, size()). Blocks until all are done. `body` must give the same result however
  // the items fall into chunks and threads.
  void run(size_t items, size_t chunk,
           const std::function<void(size_t begin, size_t end, int worker)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace meadow
