#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace meadow {
namespace {

TEST(Bytes, KnownDigests) {  // FIPS 180-4 and RFC 4231 test case 2
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(
      hex(hmac_sha256(as_bytes("Jefe"), {as_bytes("what do ya want "), as_bytes("for nothing?")})),
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  Sha256 pieces;
  pieces.update("a");
  pieces.update("bc");
  EXPECT_EQ(pieces.finish(), sha256("abc"));
}

TEST(Bytes, TextEncodingsRoundTripAtEveryLength) {
  Rng rng(5);
  for (size_t n = 0; n < 70; n++) {
    Bytes data(n);
    rng.fill(data);
    EXPECT_EQ(from_base64url(base64url(data)).value(), data);
    EXPECT_EQ(from_hex(to_hex(data)).value(), data);
  }
  EXPECT_EQ(base64url(as_bytes("any carnal pleas")), "YW55IGNhcm5hbCBwbGVhcw");
}

TEST(Bytes, DamagedTextIsRefused) {
  for (const char* bad : {"A", "AAAAA", "AA=", "A+", "A B", "AB"})  // AB: stray bits at the end
    EXPECT_FALSE(from_base64url(bad)) << bad;
  for (const char* bad : {"0", "0g", "0x"}) EXPECT_FALSE(from_hex(bad)) << bad;
  EXPECT_FALSE(fixed_from<Digest>(as_bytes("short")));
}

}  // namespace
}  // namespace meadow
