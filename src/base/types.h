// Strong types for what is easy to swap: indices, positions, ids.
// Thread rule: values; any thread.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

namespace meadow {

// A half-open range of blocks [first, last) of one model.
struct BlockRange {
  int32_t first = 0;
  int32_t last = 0;

  int32_t size() const { return last - first; }
  bool empty() const { return last <= first; }
  bool contains(int32_t block) const { return block >= first && block < last; }
  bool contains(BlockRange other) const { return other.first >= first && other.last <= last; }
  auto operator<=>(const BlockRange&) const = default;
};

// 32 bytes compared and hashed by value; Tag keeps kinds apart.
template <class Tag, size_t N>
struct FixedBytes {
  static constexpr size_t kSize = N;
  std::array<uint8_t, N> bytes{};

  bool is_zero() const { return *this == FixedBytes{}; }
  auto operator<=>(const FixedBytes&) const = default;
};

using Digest = FixedBytes<struct DigestTag, 32>;        // SHA-256
using PeerId = FixedBytes<struct PeerIdTag, 32>;        // SHA-256 of the peer's raw public key
using PublicKey = FixedBytes<struct PublicKeyTag, 32>;  // Ed25519
using Signature = FixedBytes<struct SignatureTag, 64>;  // Ed25519
using SessionId = FixedBytes<struct SessionIdTag, 16>;  // random

// Lower-case hexadecimal of the first `bytes` bytes (all by default).
template <class Tag, size_t N>
std::string hex(const FixedBytes<Tag, N>& id, size_t bytes = N) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < bytes && i < N; i++) {
    out += kDigits[id.bytes[i] >> 4];
    out += kDigits[id.bytes[i] & 15];
  }
  return out;
}
// What people see of a peer: its first 4 bytes, 8 digits.
inline std::string short_id(const PeerId& id) { return hex(id, 4); }

}  // namespace meadow

template <class Tag, size_t N>
struct std::hash<meadow::FixedBytes<Tag, N>> {
  size_t operator()(const meadow::FixedBytes<Tag, N>& id) const {
    size_t h;  // the bytes are digests or random already
    static_assert(N >= sizeof h);
    std::memcpy(&h, id.bytes.data(), sizeof h);
    return h;
  }
};
