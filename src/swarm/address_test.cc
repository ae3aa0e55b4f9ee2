#include "swarm/address.h"

#include <gtest/gtest.h>

namespace meadow::swarm {
namespace {

TEST(Address, ReadsAndWritesBothFamiliesAndNames) {
  for (const char* text : {"127.0.0.1:7000", "[::1]:7000", "[2001:db8::8]:1", "a-b.example:65535",
                           "localhost:80", "0.0.0.0:0", "[::]:0"})
    EXPECT_EQ(format(parse_address(text).value()), text);
  EXPECT_EQ(parse_address("[::1]:7000").value(), (HostPort{"::1", 7000}));
  // one text per address, however it was written
  EXPECT_EQ(format(parse_address("[2001:0DB8:0::8]:1").value()), "[2001:db8::8]:1");
}

TEST(Address, RefusesWhatIsNoAddress) {
  const std::string long_name(300, 'a');
  for (const std::string& text : std::initializer_list<std::string>{"",
                                                                    ":",
                                                                    "host",
                                                                    "host:",
                                                                    ":80",
                                                                    "host:65536",
                                                                    "host:-1",
                                                                    "host:08",
                                                                    "host:8x",
                                                                    "::1:80",
                                                                    "[::1]",
                                                                    "[::1]80",
                                                                    "[]:80",
                                                                    "[::1%eth0]:80",
                                                                    "[host]:80",
                                                                    "1.2.3:80",
                                                                    "1.2.3.256:80",
                                                                    "a..b:80",
                                                                    ".a:80",
                                                                    "a.:80",
                                                                    "a b:80",
                                                                    "a/b:80",
                                                                    "h\n:80",
                                                                    std::string("a\0b:80", 6),
                                                                    long_name + ":80"})
    EXPECT_FALSE(parse_address(text)) << text;
}

TEST(Address, DialableNeedsAPortAndAPlace) {
  EXPECT_TRUE(parse_dialable("10.0.0.1:1"));
  for (const char* text : {"10.0.0.1:0", "0.0.0.0:80", "[::]:80", "[0:0::0]:80"})
    EXPECT_FALSE(parse_dialable(text)) << text;
}

TEST(Address, ErrorsQuoteNoControlCharacters) {
  const auto error = parse_address("\x1b[31mred").error();
  EXPECT_EQ(error.message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace meadow::swarm
