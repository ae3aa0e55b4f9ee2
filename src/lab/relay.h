// The network of a lab: reads packets from the hosts' tun devices and writes each to the device of
// the host it is for, late, never or in turn as the link between them says.
// Thread rule: start() and stop() by one thread, the rest from any. A thread of its own moves the
// packets; where the system allows it, that thread goes before all ordinary ones, so that a busy
// machine does not lengthen delays, and the processors do not sleep while it runs, so that an idle
// one does not either. Does not own the devices.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "lab/delay_line.h"
#include "lab/lab_file.h"

namespace meadow::lab {

// A host as the relay sees it.
struct RelayPort {
  int device = -1;       // descriptor of the tun device: not blocking, packets with a virtio header
  uint32_t address = 0;  // IPv4, host byte order
};

struct RelayStats {
  uint64_t packets = 0, bytes = 0;  // read from the devices; a large packet counts as one
  uint64_t lost = 0, dropped = 0;   // by the links' loss; for lack of room
  uint64_t unknown = 0;             // not IPv4, or for nobody here
  uint64_t failed = 0;              // a device did not take the packet
  Duration worst_delay{};           // most that a packet was written after it was due
};

class Relay {
 public:
  // `ports` in the order of `file.hosts`.
  Relay(std::vector<RelayPort> ports, const LabFile& file);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // kResourceExhausted if the system has no descriptor or thread left.
  Result<void> start();
  void stop();

  // For packets from now on, both directions; a == b is no link and changes nothing.
  void reshape(size_t a, size_t b, const LinkShape& shape);
  // What comes into the host, together, in bits per second; 0: no limit.
  void limit_down(size_t host, double rate);
  LinkShape shape(size_t a, size_t b) const;
  RelayStats stats() const;
  // Whether the thread got its place before the ordinary ones.
  bool has_priority() const;
  // Whether the processors are kept from sleeping.
  bool keeps_awake() const;

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace meadow::lab
