#include "swarm/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace meadow::swarm {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

// Labels of letters, digits, '-' and '_', joined by single dots.
bool is_name(std::string_view host) {
  bool label_empty = true;
  for (const char c : host) {
    if (c == '.') {
      if (label_empty) return false;
      label_empty = true;
    } else if (is_name_char(c)) {
      label_empty = false;
    } else {
      return false;
    }
  }
  return !label_empty;
}

// What is quoted from outside text in an error: short, printable.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 64));
  std::replace_if(out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out + (text.size() > 64 ? "..." : "");
}

Result<uint16_t> parse_port(std::string_view text, std::string_view whole) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool canonical = !text.empty() && (text.size() == 1 || text[0] != '0');
  if (!canonical || error != std::errc() || end != text.data() + text.size())
    return fail(Code::kInvalidArgument, "address '{}': expected a port from 0 to 65535, got '{}'",
                shown(whole), shown(text));
  return port;
}

Result<std::string> parse_ipv6(std::string_view text, std::string_view whole) {
  in6_addr raw;
  char canonical[INET6_ADDRSTRLEN];
  if (text.size() >= sizeof canonical || inet_pton(AF_INET6, std::string(text).c_str(), &raw) != 1)
    return fail(Code::kInvalidArgument, "address '{}': '{}' is no IPv6 address", shown(whole),
                shown(text));
  return std::string(inet_ntop(AF_INET6, &raw, canonical, sizeof canonical));
}

Result<std::string> parse_host(std::string_view text, std::string_view whole) {
  if (text.empty() || text.size() > kMaxHostBytes)
    return fail(Code::kInvalidArgument, "address '{}': expected a host of 1 to {} characters",
                shown(whole), kMaxHostBytes);
  const bool numeric =
      std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || c == '.'; });
  in_addr raw;
  if (numeric && inet_pton(AF_INET, std::string(text).c_str(), &raw) != 1)
    return fail(Code::kInvalidArgument, "address '{}': '{}' is no IPv4 address", shown(whole),
                shown(text));
  if (!numeric && !is_name(text))
    return fail(Code::kInvalidArgument,
                "address '{}': '{}' is no host name (an IPv6 address needs brackets: [::1]:7000)",
                shown(whole), shown(text));
  return std::string(text);
}

}  // namespace

Result<HostPort> parse_address(std::string_view text) {
  if (text.size() > kMaxAddressBytes)
    return fail(Code::kInvalidArgument, "address '{}': {} characters, at most {} are allowed",
                shown(text), text.size(), kMaxAddressBytes);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return fail(Code::kInvalidArgument, "address '{}': expected host:port", shown(text));
  HostPort out;
  MEADOW_TRY(out.port, parse_port(text.substr(colon + 1), text));
  const std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    MEADOW_TRY(out.host, parse_ipv6(host.substr(1, host.size() - 2), text));
  } else {
    MEADOW_TRY(out.host, parse_host(host, text));
  }
  return out;
}

Result<HostPort> parse_dialable(std::string_view text) {
  MEADOW_TRY(HostPort address, parse_address(text));
  if (address.port == 0)
    return fail(Code::kInvalidArgument, "address '{}': port 0 cannot be dialled", shown(text));
  if (address.host == "0.0.0.0" || address.host == "::")
    return fail(Code::kInvalidArgument,
                "address '{}': means every interface and cannot be dialled; name one", shown(text));
  return address;
}

std::string format(const HostPort& address) {
  const bool ipv6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", address.host, ipv6 ? "]" : "", address.port);
}

}  // namespace meadow::swarm
