// The network of one host of a lab: a network namespace with a tun device. Both live as long as a
// descriptor or a process holds them, so that the kernel removes everything when the process that
// made them ends, however it ends.
// Thread rule: one thread per object. Owns both descriptors.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace meadow::lab {

inline constexpr char kDevice[] = "lab0";  // of every host

class HostNetwork {
 public:
  // Makes the namespace in a thread of its own: the caller stays where it is. `address`: IPv4, host
  // byte order, in a network of 16 bits. kPermissionDenied or kUnsupported say what is missing.
  static Result<HostNetwork> make(uint32_t address, int mtu);
  ~HostNetwork();
  HostNetwork(HostNetwork&& other) noexcept;
  HostNetwork& operator=(HostNetwork&& other) noexcept;

  int device() const { return device_; }
  // Any process of this user may enter by it while this object lives: /proc/PID/fd/N, with PID as
  // this process sees itself.
  std::string path() const;
  int descriptor() const { return namespace_; }
  // Moves the calling thread (before it starts others: what it will start) into the namespace.
  Result<void> enter() const;

  // Whether packets of up to 64 KiB may leave the host in one piece.
  Result<void> set_offload(bool on);
  // TCP's congestion control; kUnsupported if the kernel has none of this name.
  Result<void> set_congestion(const std::string& name);
  // Sends at most this many bits per second; 0: no limit. Runs tc; kNotFound without it.
  Result<void> limit_up(double rate, int mtu);

 private:
  HostNetwork(int name_space, int device) : namespace_(name_space), device_(device) {}
  int namespace_ = -1, device_ = -1;
};

// What of root, network namespaces, tun devices and tc this process lacks, and what to do about it;
// the text of the error names the first that is missing.
Result<void> check_requirements();

// Moves the calling thread into the network namespace with this path.
Result<void> enter_network(const std::string& path);

// The dotted form of an address in host byte order.
std::string address_text(uint32_t address);

}  // namespace meadow::lab
