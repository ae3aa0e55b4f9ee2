// Token ids by text: a flat table of hashes and ids. The texts stay with their owner, who is asked
// for them by id; filling it takes a third of the time that a map with a node per text does.
// Thread rule: as any container. Owns its table.
#pragma once
#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace meadow::text {

class TextIndex {
 public:
  static constexpr int32_t kNone = -1;

  // Room for so many texts; before the first add().
  void reserve(size_t texts) { slots_.assign(std::bit_ceil(2 * texts + 1), {}); }

  // Adds `id` under `text` and returns kNone; if an equal text is there, returns its id and changes
  // nothing. text_of(id): the text of an id that was added.
  template <class TextOf>
  int32_t add(std::string_view text, int32_t id, TextOf text_of) {
    Slot& slot = slots_[place(text, text_of)];
    if (slot.id != kNone) return slot.id;
    slot = {hash(text), id};
    return kNone;
  }

  // kNone if there is none.
  template <class TextOf>
  int32_t find(std::string_view text, TextOf text_of) const {
    return slots_.empty() ? kNone : slots_[place(text, text_of)].id;
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = kNone;
  };

  static uint32_t hash(std::string_view text) {
    return static_cast<uint32_t>(std::hash<std::string_view>()(text));
  }
  // The slot of the text, or the free one where it belongs.
  template <class TextOf>
  size_t place(std::string_view text, TextOf text_of) const {
    const uint32_t h = hash(text);
    const size_t mask = slots_.size() - 1;
    size_t at = h & mask;
    while (slots_[at].id != kNone && (slots_[at].hash != h || text_of(slots_[at].id) != text))
      at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;  // a power of two; at least half of them free
};

}  // namespace meadow::text
