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
  return sum;
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
