#include "base/identity.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace meadow {
namespace {

// A folder of its own for each test, gone with it.
class IdentityFile : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path_of(const char* leaf) const { return folder_ + "/" + leaf; }

 private:
  std::string folder_ =
      (std::filesystem::temp_directory_path() / "meadow-identity-XXXXXX").string();
};

TEST(Identity, Rfc8032Vector) {  // section 7.1, test 1
  const auto seed = from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
  const Identity id = Identity::from_seed(*seed);
  EXPECT_EQ(hex(id.public_key()),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  EXPECT_EQ(
      to_hex(id.sign({}).bytes),
      "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701c"
      "f9b46bd25bf5f0595bbe24655141438e7a100b");
}

TEST(Identity, SignaturesBindKeyAndMessage) {
  const Identity a = Identity::generate(), b = Identity::generate();
  const Signature s = a.sign(as_bytes("lease"));
  EXPECT_TRUE(verify(a.public_key(), as_bytes("lease"), s));
  EXPECT_FALSE(verify(a.public_key(), as_bytes("leash"), s));
  EXPECT_FALSE(verify(b.public_key(), as_bytes("lease"), s));
}

TEST(Identity, CertificateCarriesTheKey) {
  const Identity a = Identity::generate();
  EXPECT_EQ(public_key_of_certificate(a.certificate_pem()).value(), a.public_key());
  EXPECT_EQ(peer_id_of(a.public_key()), a.id());
  EXPECT_FALSE(
      public_key_of_certificate("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
}

TEST_F(IdentityFile, IsMadeOnceAndPrivate) {
  const std::string path = path_of("peer.key");
  const auto first = Identity::load_or_create(path);
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_EQ(Identity::load_or_create(path)->id(), first->id());
  struct stat st;
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(IdentityFile, DamagedIsAnErrorThatNamesIt) {
  const std::string path = path_of("broken.key");
  std::ofstream(path) << "not a key";
  const auto id = Identity::load_or_create(path);
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, Code::kCorrupt);
  EXPECT_NE(id.error().message.find(path), std::string::npos);
  EXPECT_FALSE(Identity::load_or_create(path_of("no-such-dir/x/peer.key")));
}

}  // namespace
}  // namespace meadow
