#include "rpc/admission.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace meadow::rpc {
namespace {

template <class Id>
Id numbered(uint64_t n) {
  Rng rng(n);
  Id id;
  rng.fill(id.bytes);
  return id;
}

const Digest kSecret = numbered<Digest>(1);
const PublicKey kServer = numbered<PublicKey>(2);

struct AdmissionTest : testing::Test {
  ManualClock clock;
  AdmissionLimits limits;
  std::unique_ptr<Admission> server;

  void SetUp() override { make(); }
  void make() { server = std::make_unique<Admission>(kSecret, kServer, clock, limits); }

  Result<Digest> handshake(const PublicKey& client, const Digest& secret) {
    const auto nonce = numbered<Nonce>(99);
    const Nonce theirs = server->hello(client, nonce);
    return server->prove(client, theirs,
                         admission_proof(secret, Role::kClient, {client, kServer, nonce, theirs}));
  }
};

TEST_F(AdmissionTest, BothEndsProve) {
  const auto client = numbered<PublicKey>(3);
  const auto nonce = numbered<Nonce>(4);
  EXPECT_FALSE(server->admitted(client));
  const Nonce theirs = server->hello(client, nonce);
  EXPECT_FALSE(server->admitted(client));
  const Handshake h{client, kServer, nonce, theirs};
  const auto proof = server->prove(client, theirs, admission_proof(kSecret, Role::kClient, h));
  ASSERT_TRUE(proof);
  EXPECT_EQ(*proof, admission_proof(kSecret, Role::kServer, h));
  EXPECT_NE(*proof, admission_proof(kSecret, Role::kClient, h));
  EXPECT_TRUE(server->admitted(client));
  EXPECT_FALSE(server->admitted(numbered<PublicKey>(5)));
}

TEST_F(AdmissionTest, AnotherSecretIsRefused) {
  const auto client = numbered<PublicKey>(3);
  const auto proof = handshake(client, numbered<Digest>(77));
  ASSERT_FALSE(proof);
  EXPECT_EQ(proof.error().code, Code::kPermissionDenied);
  EXPECT_FALSE(server->admitted(client));
}

TEST_F(AdmissionTest, ANonceServesOnceEvenIfItFails) {
  const auto client = numbered<PublicKey>(3);
  const auto nonce = numbered<Nonce>(4);
  const Nonce theirs = server->hello(client, nonce);
  const Digest right = admission_proof(kSecret, Role::kClient, {client, kServer, nonce, theirs});
  EXPECT_FALSE(server->prove(client, theirs, Digest{}));
  EXPECT_FALSE(server->prove(client, theirs, right));
  EXPECT_FALSE(server->admitted(client));
}

TEST_F(AdmissionTest, ANonceIsOfOnePeer) {
  const auto client = numbered<PublicKey>(3), thief = numbered<PublicKey>(6);
  const auto nonce = numbered<Nonce>(4);
  const Nonce theirs = server->hello(client, nonce);
  const Digest right = admission_proof(kSecret, Role::kClient, {client, kServer, nonce, theirs});
  EXPECT_FALSE(server->prove(thief, theirs, right));
  EXPECT_FALSE(server->admitted(thief));
  EXPECT_TRUE(server->prove(client, theirs, right));  // the thief did not spend it
}

TEST_F(AdmissionTest, EveryPartOfTheHandshakeCounts) {
  const Handshake h{numbered<PublicKey>(1), numbered<PublicKey>(2), numbered<Nonce>(3),
                    numbered<Nonce>(4)};
  const Digest proof = admission_proof(kSecret, Role::kClient, h);
  for (int part = 0; part < 4; part++) {
    Handshake other = h;
    if (part == 0) other.client_key.bytes[31] ^= 1;
    if (part == 1) other.server_key.bytes[0] ^= 1;
    if (part == 2) other.client_nonce.bytes[31] ^= 1;
    if (part == 3) other.server_nonce.bytes[0] ^= 1;
    EXPECT_NE(admission_proof(kSecret, Role::kClient, other), proof) << part;
  }
}

TEST_F(AdmissionTest, HandshakesExpire) {
  const auto client = numbered<PublicKey>(3);
  const auto nonce = numbered<Nonce>(4);
  const Nonce theirs = server->hello(client, nonce);
  clock.advance(limits.handshake);
  EXPECT_FALSE(server->prove(
      client, theirs, admission_proof(kSecret, Role::kClient, {client, kServer, nonce, theirs})));
  EXPECT_EQ(server->sizes().pending, 0u);
}

TEST_F(AdmissionTest, AdmissionExpiresUnlessUsed) {
  const auto client = numbered<PublicKey>(3);
  ASSERT_TRUE(handshake(client, kSecret));
  clock.advance(limits.admission - 1s);
  EXPECT_TRUE(server->admitted(client));
  clock.advance(limits.admission - 1s);
  EXPECT_TRUE(server->admitted(client));
  clock.advance(limits.admission);
  EXPECT_FALSE(server->admitted(client));
}

TEST_F(AdmissionTest, EverythingIsBounded) {
  limits.pending = 10;
  limits.pending_per_peer = 2;
  limits.admitted = 5;
  make();
  for (uint64_t i = 0; i < 100; i++) server->hello(numbered<PublicKey>(3), numbered<Nonce>(i));
  EXPECT_LE(server->sizes().pending, 2u);
  for (uint64_t i = 0; i < 100; i++) server->hello(numbered<PublicKey>(i), numbered<Nonce>(i));
  EXPECT_LE(server->sizes().pending, 10u);
  for (uint64_t i = 0; i < 20; i++) {
    clock.advance(1s);
    ASSERT_TRUE(handshake(numbered<PublicKey>(1000 + i), kSecret));
    EXPECT_TRUE(server->admitted(numbered<PublicKey>(1000 + i)));
  }
  EXPECT_EQ(server->sizes().admitted, 5u);
  EXPECT_FALSE(server->admitted(numbered<PublicKey>(1000)));  // the oldest made room
}

}  // namespace
}  // namespace meadow::rpc
