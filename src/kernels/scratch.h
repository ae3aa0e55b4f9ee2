// Reusable working memory of kernels: grows to what was asked, never shrinks.
// Thread rule: one kernel call at a time. Owns its memory; one per engine is enough.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace meadow::kernels {

class Scratch {
 public:
  enum Slot {
    kActivations,
    kPanels,
    kTail,
    kTailResults,
    kAttentionRows,
    kAttentionWork,
    kExpertLists,
    kExpertItems,
    kExpertInputs,
    kExpertOutputs,
    kSlots
  };

  // Room for `count` values of T, 64-byte aligned, contents undefined. Valid until the next call
  // with the same slot. Allocates only when the slot has less.
  template <class T>
  T* get(Slot slot, size_t count) {
    return static_cast<T*>(reserve(slot, count * sizeof(T)));
  }
  // Memory of one worker of a pool, for kernels that run other kernels on its threads. Different
  // workers may use theirs at once, after one thread asked for each of them.
  Scratch& of_worker(int worker);
  // Bytes held in all slots, those of workers too.
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
  std::vector<std::unique_ptr<Scratch>> workers_;
};

}  // namespace meadow::kernels
