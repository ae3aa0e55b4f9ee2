// Small binary records: little-endian integers, strings with their length before them. The writer
// makes one encoding per value; the reader never reads outside its bytes and never allocates more
// than it was given.
// Thread rule: values; one thread at a time. The reader borrows its bytes.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/check.h"
#include "base/types.h"

namespace meadow {

class WireWriter {
 public:
  void u8(uint8_t v) { out_.push_back(v); }
  void u16(uint16_t v) { integer(v, 2); }
  void u32(uint32_t v) { integer(v, 4); }
  void u64(uint64_t v) { integer(v, 8); }
  void f32(float v) { u32(std::bit_cast<uint32_t>(v)); }
  void f64(double v) { u64(std::bit_cast<uint64_t>(v)); }
  void raw(ByteView bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  template <class Tag, size_t N>
  void fixed(const FixedBytes<Tag, N>& id) {
    raw(id.bytes);
  }
  // u16 length, then the bytes; longer text is a broken invariant of the caller.
  void text(std::string_view s) {
    MEADOW_CHECK(s.size() <= UINT16_MAX);
    u16(static_cast<uint16_t>(s.size()));
    raw(as_bytes(s));
  }

  const Bytes& bytes() const { return out_; }
  Bytes take() { return std::move(out_); }

 private:
  void integer(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) out_.push_back(static_cast<uint8_t>(v >> (8 * i)));
  }
  Bytes out_;
};

// A failure sticks: once something was missing every read gives zero or nothing and ok() is false,
// so that a parser reads all its fields and asks once.
class WireReader {
 public:
  explicit WireReader(ByteView bytes) : bytes_(bytes) {}

  uint8_t u8() { return static_cast<uint8_t>(integer(1)); }
  uint16_t u16() { return static_cast<uint16_t>(integer(2)); }
  uint32_t u32() { return static_cast<uint32_t>(integer(4)); }
  uint64_t u64() { return integer(8); }
  float f32() { return std::bit_cast<float>(u32()); }
  double f64() { return std::bit_cast<double>(u64()); }
  // A view of the next n bytes; empty on failure.
  ByteView raw(size_t n) {
    if (!ok_ || n > remaining()) {
      ok_ = false;
      return {};
    }
    const ByteView out = bytes_.subspan(at_, n);
    at_ += n;
    return out;
  }
  template <class Fixed>
  Fixed fixed() {
    Fixed out;
    const ByteView bytes = raw(Fixed::kSize);
    std::copy(bytes.begin(), bytes.end(), out.bytes.begin());
    return out;
  }
  // Fails if the text is longer than `max_bytes`.
  std::string text(size_t max_bytes) {
    const size_t n = u16();
    if (n > max_bytes) ok_ = false;
    return std::string(as_text(raw(n)));
  }

  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && at_ == bytes_.size(); }
  size_t remaining() const { return bytes_.size() - at_; }
  size_t offset() const { return at_; }

 private:
  uint64_t integer(int n) {
    const ByteView bytes = raw(static_cast<size_t>(n));
    uint64_t v = 0;
    for (size_t i = 0; i < bytes.size(); i++) v |= uint64_t{bytes[i]} << (8 * i);
    return v;
  }
  ByteView bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace meadow
