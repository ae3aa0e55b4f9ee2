#include "lab/delay_line.h"

#include <algorithm>

namespace meadow::lab {
namespace {

// As a router's buffer: what waits for a slow wire is this much time of it, or a few packets.
constexpr double kQueueSeconds = 0.1, kQueueBytes = 32768;

}  // namespace

bool DelayLine::push(TimePoint now, std::span<const uint8_t> packet, size_t size) {
  stats_.packets++;
  stats_.bytes += size;
  // The dice fall the same way whatever the line holds, so that a seed means the same fates.
  const bool lost = shape_.loss > 0 && rng_.uniform() < shape_.loss;
  const Duration wait = shape_.jitter > Duration::zero()
                            ? Duration(static_cast<int64_t>(
                                  rng_.uniform() * static_cast<double>(shape_.jitter.count())))
                            : Duration::zero();
  if (lost) {
    stats_.lost++;
    return false;
  }
  const double waiting = shape_.rate / 8 * std::max(0.0, seconds(wire_free_ - now));  // bytes
  if (held_bytes_ + packet.size() > max_bytes_ ||
      waiting > std::max(shape_.rate / 8 * kQueueSeconds, kQueueBytes)) {
    stats_.dropped++;
    return false;
  }
  TimePoint sent = now;
  if (shape_.rate > 0) {
    wire_free_ =
        std::max(now, wire_free_) + from_seconds(static_cast<double>(size) * 8 / shape_.rate);
    sent = wire_free_;
  }
  // A route keeps the order of its packets, whatever each of them waits.
  last_due_ = std::max(last_due_, sent + shape_.rtt / 2 + wait);
  std::vector<uint8_t> bytes;
  if (!spare_.empty()) {
    bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  bytes.assign(packet.begin(), packet.end());
  held_bytes_ += bytes.size();
  packets_.push_back({last_due_, std::move(bytes)});
  return true;
}

std::optional<TimePoint> DelayLine::due() const {
  if (packets_.empty()) return std::nullopt;
  return packets_.front().due;
}

void DelayLine::pop() {
  std::vector<uint8_t> bytes = std::move(packets_.front().bytes);
  packets_.pop_front();
  held_bytes_ -= bytes.size();
  if (spare_.size() < kMaxSpare) spare_.push_back(std::move(bytes));
}

}  // namespace meadow::lab
