// One direction of a link: decides for each packet whether it is lost and when it arrives, and
// holds it until then. No time of its own, no sockets: the relay drives it, tests do in virtual
// time.
// Thread rule: one thread. Owns the packets it holds.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "lab/lab_file.h"

namespace meadow::lab {

struct DelayLineStats {
  uint64_t packets = 0, bytes = 0;  // that arrived in the line, lost and dropped ones included
  uint64_t lost = 0;                // by chance, as the link's loss says
  uint64_t dropped = 0;             // no room
};

class DelayLine {
 public:
  // Holds at most `max_bytes`. Equal seeds, shapes and packets meet equal fates.
  DelayLine(const LinkShape& shape, uint64_t seed, uint64_t max_bytes)
      : shape_(shape), rng_(seed), max_bytes_(max_bytes) {}

  // Takes in a packet that was sent at `now`; `size` is what counts against the rate. False: lost
  // or dropped.
  bool push(TimePoint now, std::span<const uint8_t> packet, size_t size);
  // When the packet at the front arrives; nothing if the line is empty.
  std::optional<TimePoint> due() const;
  // The packet at the front, which must exist; valid until pop().
  std::span<const uint8_t> front() const { return packets_.front().bytes; }
  void pop();

  // For packets sent from now on; those on their way arrive as they would have.
  void reshape(const LinkShape& shape) { shape_ = shape; }
  const LinkShape& shape() const { return shape_; }
  const DelayLineStats& stats() const { return stats_; }

 private:
  struct Packet {
    TimePoint due;
    std::vector<uint8_t> bytes;
  };
  static constexpr size_t kMaxSpare = 64;  // buffers kept for reuse

  LinkShape shape_;
  Rng rng_;
  uint64_t max_bytes_, held_bytes_ = 0;
  std::deque<Packet> packets_;
  std::vector<std::vector<uint8_t>> spare_;
  TimePoint wire_free_{};  // when the last packet has left the sender
  TimePoint last_due_{};
  DelayLineStats stats_;
};

}  // namespace meadow::lab
