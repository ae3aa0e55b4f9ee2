// The memory of a span's cache: pages of 64 positions of one block. Capacity is a count: a session
// reserves its pages when it opens, so that it cannot fail for room later, and takes them one by
// one as it grows. A page given back is kept for the next one who takes. Thread rule: one caller at
// a time. Owns every page, taken or not; borrows the Ops.
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compute/ops.h"

namespace meadow::engine {

class PagePool {
 public:
  PagePool(compute::Ops& ops, compute::CacheShape shape, int64_t max_pages)
      : ops_(ops), shape_(shape), max_(max_pages) {}
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Pages that hold `positions` positions of one block.
  static int64_t pages_for(int64_t positions);

  // Sets `pages` aside; kResourceExhausted, with both numbers, if that many are not left.
  Result<void> reserve(int64_t pages);
  void release(int64_t pages);

  // One of the caller's reserved pages. kResourceExhausted if the machine has no memory.
  Result<compute::Page> take();
  void give(compute::Page page);

  int64_t max() const { return max_; }
  int64_t reserved() const { return reserved_; }
  int64_t taken() const { return static_cast<int64_t>(pages_.size() - free_.size()); }
  const compute::CacheShape& shape() const { return shape_; }

 private:
  compute::Ops& ops_;
  const compute::CacheShape shape_;
  const int64_t max_;
  int64_t reserved_ = 0;
  std::vector<compute::Page> pages_;  // all
  std::vector<compute::Page> free_;
};

}  // namespace meadow::engine
