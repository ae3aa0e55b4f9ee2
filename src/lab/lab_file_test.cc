#include "lab/lab_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meadow::lab {
namespace {

using testing::HasSubstr;

LabFile parsed(std::string_view text) {
  auto file = parse_lab(text);
  EXPECT_TRUE(file) << file.error().text();
  return file ? std::move(*file) : LabFile{};
}

std::string error_of(std::string_view text) {
  const auto file = parse_lab(text);
  EXPECT_FALSE(file);
  return file ? "" : file.error().text();
}

TEST(LabFile, HostsRegionsLinks) {
  const LabFile file = parsed(R"(
# two regions
host  client region=eu rate=100mbit
hosts s 3    region=us up=50mbit down=1gbit   # s1 s2 s3
default      rtt=5ms
link eu us   rtt=80ms jitter=2ms loss=0.5%
link client s2 rtt=250us rate=10mbit
option seed=7 mtu=9000 queue=1000000 offload=off congestion=bbr
)");
  ASSERT_EQ(file.hosts.size(), 4u);
  EXPECT_EQ(file.hosts[0].up, 1e8);
  EXPECT_EQ(file.hosts[0].down, 1e8);
  EXPECT_EQ(file.hosts[3].name, "s3");
  EXPECT_EQ(file.hosts[3].up, 5e7);
  EXPECT_EQ(file.hosts[3].down, 1e9);
  EXPECT_EQ(file.seed, 7u);
  EXPECT_EQ(file.mtu, 9000);
  EXPECT_EQ(file.queue_bytes, 1000000u);
  EXPECT_FALSE(file.offload);
  EXPECT_EQ(file.congestion, "bbr");
  EXPECT_EQ(file.find("s2"), 2u);
  EXPECT_EQ(file.find("us"), std::nullopt);
}

TEST(LabFile, TheClosestLineWins) {
  const LabFile file = parsed(
      "host a region=x\nhost b region=y\nhost c region=y\n"
      "link a b rtt=1ms\nlink a y rtt=2ms\nlink x y rtt=3ms\nlink y y rtt=4ms\ndefault rtt=5ms\n");
  EXPECT_EQ(file.link(0, 1).rtt, 1ms);
  EXPECT_EQ(file.link(1, 0).rtt, 1ms);
  EXPECT_EQ(file.link(0, 2).rtt, 2ms);
  EXPECT_EQ(file.link(2, 1).rtt, 4ms);
  const LabFile other =
      parsed("host a region=x\nhost b region=y\ndefault rtt=5ms\nlink x x rtt=9ms");
  EXPECT_EQ(other.link(0, 1).rtt, 5ms);
  // Of two lines that fit alike the last one.
  EXPECT_EQ(parsed("host a\nhost b\nlink a b rtt=1ms\nlink b a rtt=2ms").link(0, 1).rtt, 2ms);
}

TEST(LabFile, Quantities) {
  EXPECT_EQ(parse_duration("40ms"), Duration(40ms));
  EXPECT_EQ(parse_duration("1.5s"), Duration(1500ms));
  EXPECT_EQ(parse_duration("250us"), Duration(250us));
  EXPECT_EQ(parse_duration("0"), Duration(0));
  EXPECT_EQ(parse_rate("56kbit"), 56e3);
  EXPECT_EQ(parse_rate("top"), 0.0);
  EXPECT_EQ(parse_probability("0.5%"), 0.005);
  EXPECT_EQ(parse_probability("0.25"), 0.25);
  for (const char* bad :
       {"", "40", "-1ms", "ms", "1e3ms", "nanms", "infs", "11s", "99999999999999s"})
    EXPECT_FALSE(parse_duration(bad)) << bad;
  for (const char* bad : {"", "5", "1bit", "-5mbit", "2000gbit", "10 mbit"})
    EXPECT_FALSE(parse_rate(bad)) << bad;
  for (const char* bad : {"", "101%", "1.1", "-1%", "x"})
    EXPECT_FALSE(parse_probability(bad)) << bad;
}

TEST(LabFile, ErrorsNameTheLineAndWhatIsExpected) {
  EXPECT_THAT(error_of(""), HasSubstr("a lab needs one"));
  EXPECT_THAT(error_of("host a\nfoo b"), HasSubstr("line 2: \"foo\": expected host"));
  EXPECT_THAT(error_of("host a\nhost a"), HasSubstr("taken"));
  EXPECT_THAT(error_of("host a region=b\nhost b"), HasSubstr("taken"));
  EXPECT_THAT(error_of("host a region=a"), HasSubstr("region"));
  EXPECT_THAT(error_of("host A"), HasSubstr("a-z"));
  EXPECT_THAT(error_of("host a-name-much-too-long"), HasSubstr("1 to 15"));
  EXPECT_THAT(error_of("host a rate"), HasSubstr("key=value"));
  EXPECT_THAT(error_of("host a colour=red"), HasSubstr("colour"));
  EXPECT_THAT(error_of("host a\nlink a z rtt=1ms"), HasSubstr("\"z\", which is no host"));
  EXPECT_THAT(error_of("host a\nlink a"), HasSubstr("link A B"));
  EXPECT_THAT(error_of("hosts a 65"), HasSubstr("1 to 64"));
  EXPECT_THAT(error_of("hosts a 60\nhosts b 5"), HasSubstr("more than 64 hosts"));
  EXPECT_THAT(error_of("host a\ndefault rtt=11s"), HasSubstr("at most"));
  EXPECT_THAT(error_of("host a\noption mtu=9"), HasSubstr("576"));
}

TEST(LabFile, Bounds) {
  EXPECT_FALSE(parse_lab(std::string(kMaxFileBytes + 1, '\n')));
  std::string links = "host a\n";
  for (size_t i = 0; i <= kMaxLinks; i++) links += "link a a\n";
  EXPECT_THAT(error_of(links), HasSubstr("more than 2048 links"));
  EXPECT_EQ(read_lab("/nowhere/at/all.lab").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace meadow::lab
