#include "base/wire.h"

#include <gtest/gtest.h>

namespace meadow {
namespace {

TEST(Wire, RoundTripsInLittleEndian) {
  WireWriter out;
  out.u8(0xfe);
  out.u16(0x1234);
  out.u32(0x89abcdef);
  out.u64(0x0123456789abcdef);
  out.f64(-0.5);
  out.text("meadow");
  out.fixed(sha256("x"));
  EXPECT_EQ(to_hex(ByteView(out.bytes()).first(7)), "fe3412efcdab89");

  WireReader in(out.bytes());
  EXPECT_EQ(in.u8(), 0xfe);
  EXPECT_EQ(in.u16(), 0x1234);
  EXPECT_EQ(in.u32(), 0x89abcdefu);
  EXPECT_EQ(in.u64(), 0x0123456789abcdefu);
  EXPECT_EQ(in.f64(), -0.5);
  EXPECT_EQ(in.text(6), "meadow");
  EXPECT_FALSE(in.at_end());
  EXPECT_EQ(in.fixed<Digest>(), sha256("x"));
  EXPECT_TRUE(in.at_end());
}

TEST(Wire, EveryTruncationFailsAndSticks) {
  WireWriter out;
  out.u32(7);
  out.text("abc");
  out.u64(9);
  for (size_t n = 0; n < out.bytes().size(); n++) {
    WireReader in(ByteView(out.bytes()).first(n));
    in.u32();
    in.text(100);
    in.u64();
    EXPECT_FALSE(in.ok()) << n;
    EXPECT_EQ(in.u8(), 0);  // nothing is read after a failure, even where bytes are left
    EXPECT_FALSE(in.at_end());
  }
}

TEST(Wire, TextLongerThanAllowedFails) {
  WireWriter out;
  out.text("abcd");
  WireReader in(out.bytes());
  EXPECT_EQ(in.text(3), "");
  EXPECT_FALSE(in.ok());
}

}  // namespace
}  // namespace meadow
