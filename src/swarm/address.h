// Addresses of peers as text: "host:port", IPv6 in brackets: "[::1]:7000".
// Thread rule: pure functions; values.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace meadow::swarm {

constexpr size_t kMaxHostBytes = 253;                   // of a DNS name
constexpr size_t kMaxAddressBytes = kMaxHostBytes + 8;  // brackets, colon, port

struct HostPort {
  std::string host;  // name, IPv4 or IPv6 address (without brackets, in its canonical form)
  uint16_t port = 0;
  auto operator<=>(const HostPort&) const = default;
};

// Where to listen: port 0 (the system chooses) and 0.0.0.0 or [::] (every interface) are allowed.
// kInvalidArgument says what is wrong with the text. Resolves no names.
Result<HostPort> parse_address(std::string_view text);
// Where to dial: neither port 0 nor "every interface".
Result<HostPort> parse_dialable(std::string_view text);
std::string format(const HostPort& address);

}  // namespace meadow::swarm
