#include "swarm/peer_filter.h"

#include <gtest/gtest.h>

namespace meadow::swarm {
namespace {

PeerId id(uint8_t first, uint8_t fifth) {
  PeerId out;
  out.bytes.fill(first);
  out.bytes[4] = fifth;
  return out;
}

TEST(PeerFilter, EmptyListsLetEverybodyPass) {
  const PeerFilter filter;
  EXPECT_TRUE(filter.passes_all());
  EXPECT_TRUE(filter.passes(id(1, 2)));
}

TEST(PeerFilter, PrefixesOfAnyLengthFromEightDigitsOn) {
  const auto filter = PeerFilter::from({"ababABAB1", "0101010102"}, {"abababab17"}).value();
  EXPECT_FALSE(filter.passes_all());
  EXPECT_TRUE(filter.passes(id(0xab, 0x1f)));  // half a byte counts
  EXPECT_FALSE(filter.passes(id(0xab, 0x2f)));
  EXPECT_FALSE(filter.passes(id(0xab, 0x17)));  // refusing wins
  EXPECT_TRUE(filter.passes(id(1, 2)));
  EXPECT_FALSE(filter.passes(id(1, 3)));
  EXPECT_TRUE(PeerFilter::from({hex(id(7, 9))}, {})->passes(id(7, 9)));
}

TEST(PeerFilter, WhatIsNoPeerIsNamed) {
  for (const char* text : {"", "abc", "abababa", "abababax", "id:ababab"}) {
    const auto filter = PeerFilter::from({}, {text});
    ASSERT_FALSE(filter) << text;
    EXPECT_EQ(filter.error().code, Code::kInvalidArgument);
  }
  EXPECT_FALSE(PeerFilter::from({std::string(65, 'a')}, {}));
}

}  // namespace
}  // namespace meadow::swarm
