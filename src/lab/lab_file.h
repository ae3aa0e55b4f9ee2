// The description of a lab: which hosts there are and what the links between them are like. A small
// text file; docs/lab.md describes it for people.
// Thread rule: values; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace meadow::lab {

inline constexpr size_t kMaxFileBytes = 64 * 1024;
inline constexpr size_t kMaxHosts = 64;
inline constexpr size_t kMaxLinks = 2048;
inline constexpr size_t kMaxNameBytes = 15;  // as long as the name of a network device
inline constexpr Duration kMaxRtt = 10s;
inline constexpr double kMinRate = 1e4, kMaxRate = 1e12;  // bits per second

// What happens to a packet on its way from one host to another. Both directions are alike.
struct LinkShape {
  Duration rtt{};     // half of it each way, 0 to kMaxRtt
  Duration jitter{};  // each packet waits up to this much longer, uniform; order is kept
  double loss = 0;    // probability that a packet is dropped, each way, 0 to 1
  double rate = 0;    // bits per second, each way; 0: as fast as it goes
  bool operator==(const LinkShape&) const = default;
};

struct HostDescription {
  std::string name;
  std::string region;       // "" is a region, too
  double up = 0, down = 0;  // bits per second out of and into the host; 0: as fast as it goes
};

// `a` and `b` are names of hosts or regions; equal for the hosts inside a region.
struct LinkDescription {
  std::string a, b;
  LinkShape shape;
};

struct LabFile {
  std::vector<HostDescription> hosts;
  std::vector<LinkDescription> links;
  LinkShape default_link;
  uint64_t seed = 1;                // of loss and jitter
  int mtu = 1500;                   // 576 to 65535
  uint64_t queue_bytes = 16 << 20;  // a link holds at most so much, each way
  std::string congestion = "reno";  // control of TCP in every host
  bool offload = true;              // packets of up to 64 KiB inside the lab: see docs/lab.md

  // Index of the host with this name.
  std::optional<size_t> find(std::string_view name) const;
  // The link between two hosts: the last line that names both hosts, else a host and the other's
  // region, else both regions, else the default.
  LinkShape link(size_t a, size_t b) const;
};

// kInvalidArgument with the number of the line.
Result<LabFile> parse_lab(std::string_view text);
// kNotFound if it cannot be read.
Result<LabFile> read_lab(const std::string& path);

// "40ms", "250us", "1.5s", "0".
Result<Duration> parse_duration(std::string_view text);
// "100mbit", "1gbit", "56kbit", "9600bit": powers of 1000; "top" and "0" are no limit.
Result<double> parse_rate(std::string_view text);
// "0.5%" or "0.005".
Result<double> parse_probability(std::string_view text);
// "100 Mbit/s", "top".
std::string rate_text(double bits_per_second);

}  // namespace meadow::lab
