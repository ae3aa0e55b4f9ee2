// Data parallel loops for kernels: one caller, a fixed crew. Each thread takes chunks from a
// stretch of its own, then from the others'. Thread rule: run() and pin() from one thread at a
// time; size() from any. Owns its threads. They look for the next job for some microseconds and
// then sleep: an idle pool uses no processor time.
#pragma once
#include <cstddef>
#include <memory>

#include "base/function_ref.h"
#include "base/result.h"

namespace meadow {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 means no thread is started. At least 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  // Ties the helpers, not the caller, to one processor each of those that this process may use,
  // from the second on; the first stays free for the caller. kInvalidArgument if there are fewer
  // processors than threads, kPermissionDenied if the system does not allow it; nothing is tied
  // then.
  Result<void> pin();

  // Calls body(begin, end, worker) for chunks of at most `chunk` items that cover [0, items);
  // worker is in [0, size()). Blocks until all are done. `body` must give the same result however
  // the items fall into chunks and threads.
  void run(size_t items, size_t chunk,
           FunctionRef<void(size_t begin, size_t end, int worker)> body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace meadow
