#include "base/bytes.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace meadow {

struct Sha256::Impl {
  EVP_MD_CTX* ctx = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(ctx); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  MEADOW_CHECK(EVP_DigestInit_ex(impl_->ctx, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(ByteView data) {
  MEADOW_CHECK(EVP_DigestUpdate(impl_->ctx, data.data(), data.size()) == 1);
}

void Sha256::update_u64(uint64_t value) {
  std::array<uint8_t, 8> le;
  for (size_t i = 0; i < 8; i++) le[i] = static_cast<uint8_t>(value >> (8 * i));
  update(le);
}

Digest Sha256::finish() {
  Digest out;
  MEADOW_CHECK(EVP_DigestFinal_ex(impl_->ctx, out.bytes.data(), nullptr) == 1);
  return out;
}

Digest sha256(ByteView data) {
  Sha256 h;
  h.update(data);
  return h.finish();
}

Digest hmac_sha256(ByteView key, std::initializer_list<ByteView> parts) {
  Bytes message;
  for (ByteView part : parts) message.insert(message.end(), part.begin(), part.end());
  Digest out;
  unsigned length = Digest::kSize;
  MEADOW_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), message.data(),
                    message.size(), out.bytes.data(), &length) != nullptr);
  return out;
}

bool equal_constant_time(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

namespace {
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
}  // namespace

std::string base64url(ByteView data) {
  std::string out;
  uint32_t bits = 0;
  int n = 0;
  for (uint8_t byte : data) {
    bits = bits << 8 | byte;
    for (n += 8; n >= 6; n -= 6) out += kAlphabet[bits >> (n - 6) & 63];
  }
  if (n > 0) out += kAlphabet[bits << (6 - n) & 63];
  return out;
}

Result<Bytes> from_base64url(std::string_view text) {
  Bytes out;
  uint32_t bits = 0;
  int n = 0;
  for (size_t i = 0; i < text.size(); i++) {
    const size_t value = kAlphabet.find(text[i]);
    if (value == std::string_view::npos)
      return fail(Code::kInvalidArgument, "character {} is not base64url", i);
    bits = bits << 6 | static_cast<uint32_t>(value);
    n += 6;
    if (n >= 8) {
      n -= 8;
      out.push_back(static_cast<uint8_t>(bits >> n));
    }
  }
  if (n >= 6 || (bits & ((1u << n) - 1)) != 0)
    return fail(Code::kInvalidArgument, "base64url text is cut off or damaged at its end");
  return out;
}

std::string to_hex(ByteView data) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (uint8_t byte : data) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

Result<Bytes> from_hex(std::string_view text) {
  if (text.size() % 2 != 0)
    return fail(Code::kInvalidArgument, "expected an even number of hexadecimal digits, got {}",
                text.size());
  Bytes out(text.size() / 2);
  for (size_t i = 0; i < out.size(); i++) {
    const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0)
      return fail(Code::kInvalidArgument, "not hexadecimal near character {}", 2 * i);
    out[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return out;
}

}  // namespace meadow
