#include "engine/page_pool.h"

#include "base/check.h"
#include "kernels/attention.h"

namespace meadow::engine {

PagePool::~PagePool() {
  for (compute::Page page : pages_) ops_.free_page(page);
}

int64_t PagePool::pages_for(int64_t positions) {
  return (positions + kernels::kPagePositions - 1) / kernels::kPagePositions;
}

Result<void> PagePool::reserve(int64_t pages) {
  if (pages > max_ - reserved_)
    return fail(Code::kResourceExhausted, "the cache has {} of {} pages free, {} are needed",
                max_ - reserved_, max_, pages);
  reserved_ += pages;
  return {};
}

void PagePool::release(int64_t pages) {
  MEADOW_CHECK(pages >= 0 && pages <= reserved_);
  reserved_ -= pages;
}

Result<compute::Page> PagePool::take() {
  MEADOW_CHECK(taken() < reserved_);
  if (free_.empty()) {
    MEADOW_TRY(compute::Page page, ops_.new_page(shape_));
    pages_.push_back(page);
    return page;
  }
  const compute::Page page = free_.back();
  free_.pop_back();
  return page;
}

void PagePool::give(compute::Page page) { free_.push_back(page); }

}  // namespace meadow::engine
