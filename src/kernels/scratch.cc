#include "kernels/scratch.h"

namespace meadow::kernels {
namespace {
constexpr std::align_val_t kAlignment{64};
}

Scratch::~Scratch() {
  for (Block& block : blocks_) ::operator delete(block.data, kAlignment);
}

size_t Scratch::bytes() const {
  size_t sum = 0;
  for (const Block& block : blocks_) sum += block.bytes;
  for (const auto& worker : workers_) sum += worker->bytes();
  return sum;
}

Scratch& Scratch::of_worker(int worker) {
  const auto index = static_cast<size_t>(worker);
  while (workers_.size() <= index) workers_.push_back(std::make_unique<Scratch>());
  return *workers_[index];
}

void* Scratch::reserve(Slot slot, size_t bytes) {
  Block& block = blocks_[slot];
  if (block.bytes < bytes) {
    ::operator delete(block.data, kAlignment);
    block = {};
    block.data = ::operator new(bytes, kAlignment);
    block.bytes = bytes;
  }
  return block.data;
}

}  // namespace meadow::kernels
