#include "swarm/peer_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace meadow::swarm {
namespace {

const Digest kSwarm = sha256("garden");

std::string text_of(size_t n) {
  std::vector<std::string> addresses;
  for (size_t i = 0; i < n; i++) addresses.push_back(fmt::format("host-{}:7000", i));
  return format_remembered(addresses, kSwarm);
}

TEST(PeerMemory, RoundTripsAndIsBounded) {
  const std::vector<std::string> addresses = {"127.0.0.1:7001", "[::1]:7002", "host:7003"};
  EXPECT_EQ(parse_remembered(format_remembered(addresses, kSwarm), kSwarm).value(), addresses);
  EXPECT_EQ(parse_remembered(text_of(3 * kMaxRemembered), kSwarm)->size(), kMaxRemembered);
}

TEST(PeerMemory, TheFileDoesNotTellTheKeyOfTheSwarm) {
  EXPECT_EQ(format_remembered({}, kSwarm).find(hex(kSwarm)), std::string::npos);
}

TEST(PeerMemory, AnythingElseIsRefused) {
  const std::string good = text_of(2);
  EXPECT_EQ(parse_remembered(good, sha256("meadow")).error().code, Code::kFailedPrecondition);
  const std::string title = format_remembered({}, kSwarm);
  std::string many = title;
  for (size_t i = 0; i <= kMaxRemembered; i++) many += "h:1\n";
  for (const std::string& bad :
       {std::string(), std::string("127.0.0.1:7001\n"), good.substr(0, good.size() - 1),
        title + "0.0.0.0:1\n", title + "\n", title + "h:1\n\x1b[2J:1\n", many,
        std::string(1 << 20, 'x'), title + std::string(1 << 20, '\n')})
    EXPECT_FALSE(parse_remembered(bad, kSwarm)) << bad.substr(0, 200);
}

TEST(PeerMemory, KeepsAFile) {
  char folder[] = "/tmp/meadow-peers-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/key.peers";
  EXPECT_TRUE(load_remembered(path, kSwarm)->empty());
  ASSERT_TRUE(store_remembered(path, {"h:1"}, kSwarm));
  ASSERT_TRUE(store_remembered(path, {"h:2"}, kSwarm));
  EXPECT_EQ(load_remembered(path, kSwarm).value(), std::vector<std::string>{"h:2"});
  std::ofstream(path) << "rubbish";
  EXPECT_EQ(load_remembered(path, kSwarm).error().code, Code::kCorrupt);
  EXPECT_EQ(store_remembered(path + "/no/such", {"h:1"}, kSwarm).error().code, Code::kUnavailable);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace meadow::swarm
