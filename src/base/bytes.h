// Digests and text encodings of bytes.
// Thread rule: pure functions; any thread.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace meadow {

using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

inline ByteView as_bytes(std::string_view s) {
  return {reinterpret_cast<const uint8_t*>(s.data()), s.size()};
}
inline std::string_view as_text(ByteView b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

// SHA-256 over pieces added in order.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(ByteView data);
  void update(std::string_view data) { update(as_bytes(data)); }
  void update_u64(uint64_t value);  // little-endian
  Digest finish();                  // once; the object is spent after it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Digest sha256(ByteView data);
inline Digest sha256(std::string_view data) { return sha256(as_bytes(data)); }
// HMAC-SHA-256 (RFC 2104) over the concatenation of `parts`.
Digest hmac_sha256(ByteView key, std::initializer_list<ByteView> parts);
// Compares without telling by its duration where the difference is.
bool equal_constant_time(ByteView a, ByteView b);

// RFC 4648 section 5, without padding. Decoding refuses any other character and stray bits.
std::string base64url(ByteView data);
Result<Bytes> from_base64url(std::string_view text);
// Decoding takes an even number of hexadecimal digits of either case.
std::string to_hex(ByteView data);
Result<Bytes> from_hex(std::string_view text);

// Copies exactly N bytes into a fixed id; kInvalidArgument otherwise.
template <class Fixed>
Result<Fixed> fixed_from(ByteView data) {
  if (data.size() != Fixed::kSize)
    return fail(Code::kInvalidArgument, "expected {} bytes, got {}", Fixed::kSize, data.size());
  Fixed out;
  std::copy(data.begin(), data.end(), out.bytes.begin());
  return out;
}

}  // namespace meadow
