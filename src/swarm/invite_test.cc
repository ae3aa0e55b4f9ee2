#include "swarm/invite.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace meadow::swarm {
namespace {

Invite sample() {
  Invite invite;
  invite.swarm = {"garden", "correct horse"};
  const PeerId id = Identity::from_seed(Bytes(32, 1)).id();
  invite.peers = {{id, "192.168.1.5:7000"}, {PeerId{}, "[2001:db8::1]:7001"}};
  invite.fingerprint = sha256("model");
  return invite;
}

TEST(Invite, RoundTrips) {
  EXPECT_EQ(parse_invite(sample().text()).value(), sample());
  Invite least;
  least.swarm.name = "x";
  EXPECT_EQ(parse_invite(least.text()).value(), least);
  Invite most = sample();
  most.swarm = {std::string(kMaxNameBytes, 'n'), std::string(kMaxSecretBytes, 's')};
  most.peers.assign(kMaxInvitePeers, {most.peers[0].id, std::string(253, 'h') + ":65535"});
  ASSERT_TRUE(check(most));
  EXPECT_LE(most.text().size(), kMaxInviteText);
  EXPECT_EQ(parse_invite(most.text()).value(), most);
}

TEST(Invite, IsOneWordOfHarmlessCharacters) {
  EXPECT_EQ(sample().text().find_first_not_of(
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
            std::string::npos);
}

TEST(Invite, RedactedFormAndErrorsHideTheSecret) {
  const std::string shown = sample().redacted();
  EXPECT_EQ(shown.find("horse"), std::string::npos);
  EXPECT_NE(shown.find("garden"), std::string::npos);
  EXPECT_NE(shown.find("secret hidden"), std::string::npos);
  EXPECT_NE(shown.find("192.168.1.5:7000"), std::string::npos);
  const auto bad = parse_swarm("gar den:horse");
  EXPECT_EQ(bad.error().message.find("horse"), std::string::npos);
}

TEST(Invite, DamageIsNoticed) {
  const std::string text = sample().text();
  for (size_t n = 0; n < text.size(); n++) EXPECT_FALSE(parse_invite(text.substr(0, n))) << n;
  for (size_t i = 0; i < text.size(); i++) {
    std::string bad = text;
    bad[i] = bad[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(parse_invite(bad)) << i;
  }
  EXPECT_FALSE(parse_invite(text + "A"));
  EXPECT_FALSE(parse_invite(std::string(kInvitePrefix) + std::string(kMaxInviteText, 'A')));
}

TEST(Invite, OutOfBoundsIsRefused) {
  for (const auto& fault : std::vector<std::function<void(Invite&)>>{
           [](Invite& i) { i.swarm.name.clear(); }, [](Invite& i) { i.swarm.name = "a b"; },
           [](Invite& i) { i.swarm.name = "a:b"; },
           [](Invite& i) { i.swarm.name = std::string(kMaxNameBytes + 1, 'a'); },
           [](Invite& i) { i.swarm.secret = std::string(kMaxSecretBytes + 1, 'a'); },
           [](Invite& i) { i.peers.assign(kMaxInvitePeers + 1, i.peers[0]); },
           [](Invite& i) { i.peers[0].address = "nowhere"; }}) {
    Invite invite = sample();
    fault(invite);
    EXPECT_FALSE(check(invite));
  }
}

TEST(Invite, SwarmAndPeerOptions) {
  EXPECT_EQ(parse_swarm("garden")->name, "garden");
  EXPECT_EQ(parse_swarm("garden")->secret, "");
  EXPECT_EQ(parse_swarm("garden:a:b")->secret, "a:b");
  for (const char* text : {"", ":x", "garden:", "a b"}) EXPECT_FALSE(parse_swarm(text)) << text;
  const PeerAddress peer = sample().peers[0];
  EXPECT_EQ(parse_peer(format(peer)).value(), peer);
  EXPECT_EQ(parse_peer("[::1]:7000").value(), (PeerAddress{PeerId{}, "[::1]:7000"}));
  for (const char* text : {"", "@h:1", "zz@h:1", "00@h:1", "h:0", "h"})
    EXPECT_FALSE(parse_peer(text)) << text;
}

TEST(SwarmKey, EveryPartMattersAndUsesDiffer) {
  const SwarmKey key{"a", "b"};
  EXPECT_NE(key.rendezvous(), key.admission());
  EXPECT_NE(key.rendezvous(), (SwarmKey{"a", ""}.rendezvous()));
  EXPECT_NE(key.rendezvous(), (SwarmKey{"c", "b"}.rendezvous()));
  EXPECT_NE(key.admission(), (SwarmKey{"a", "c"}.admission()));
  EXPECT_EQ(key.rendezvous(), (SwarmKey{"a", "b"}.rendezvous()));
}

}  // namespace
}  // namespace meadow::swarm
