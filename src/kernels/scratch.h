// Reusable working memory of kernels: grows to what was asked, never shrinks.
// Thread rule: one kernel call at a time. Owns its memory; one per engine is enough.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

namespace meadow::kernels {

class Scratch {
 public:
  enum Slot { kActivations, kPanels, kTail, kTailResults, kAttentionRows, kAttentionWork, kSlots };

  // Room for `count` values of T, 64-byte aligned, contents undefined. Valid until the next call
  // with the same slot. Allocates only when the slot has less.
  template <class T>
  T* get(Slot slot, size_t count) {
    return static_cast<T*>(reserve(slot, count * sizeof(T)));
  }
  // Bytes held in all slots.
  size_t bytes() const;

  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
  };
  void* reserve(Slot slot, size_t bytes);
  std::array<Block, kSlots> blocks_;
};

}  // namespace meadow::kernels
