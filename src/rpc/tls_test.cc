// What TLS itself must refuse, tried with OpenSSL alone against our listening side.
#include "rpc/tls.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "rpc/test_peers.h"

namespace meadow::rpc {
namespace {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using CertPtr = std::unique_ptr<X509, Freer<X509_free>>;
using BioPtr = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Freer<SSL_free>>;

KeyPtr key_from_pem(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return KeyPtr(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
}
CertPtr certificate_from_pem(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return CertPtr(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

// A key object that claims the victim's public half and has the thief's secret half, so that
// OpenSSL takes it for the certificate's own key.
KeyPtr forged_key(const Identity& victim, const Identity& thief) {
  const KeyPtr own = key_from_pem(thief.private_key_pem());
  uint8_t secret[32];
  size_t length = sizeof secret;
  EXPECT_EQ(EVP_PKEY_get_raw_private_key(own.get(), secret, &length), 1);
  PublicKey claimed = victim.public_key();
  OSSL_PARAM params[] = {
      OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PRIV_KEY, secret, sizeof secret),
      OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, claimed.bytes.data(),
                                        claimed.bytes.size()),
      OSSL_PARAM_construct_end()};
  EVP_PKEY_CTX* context = EVP_PKEY_CTX_new_from_name(nullptr, "ED25519", nullptr);
  EVP_PKEY* key = nullptr;
  EXPECT_EQ(EVP_PKEY_fromdata_init(context), 1);
  EXPECT_EQ(EVP_PKEY_fromdata(context, &key, EVP_PKEY_KEYPAIR, params), 1);
  EVP_PKEY_CTX_free(context);
  return KeyPtr(key);
}

struct Outcome {
  bool connected = false;  // handshake done and the server's first HTTP/2 frame read
  int version = 0;
};

Outcome tls_connect(int port, X509* certificate, EVP_PKEY* key, int version) {
  const ContextPtr context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), version);
  SSL_CTX_set_max_proto_version(context.get(), version);
  if (certificate != nullptr) {
    EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key), 1);
  }
  static constexpr uint8_t kAlpn[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kAlpn, sizeof kAlpn);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval timeout{20, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  const SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), fd);
  Outcome out;
  if (SSL_connect(ssl.get()) == 1) {
    out.version = SSL_version(ssl.get());
    // In TLS 1.3 the server judges our certificate after our side is done; SETTINGS come after.
    static constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    SSL_write(ssl.get(), kPreface, sizeof kPreface - 1);
    uint8_t frame[9];
    out.connected = SSL_read(ssl.get(), frame, sizeof frame) == sizeof frame;
  }
  ERR_clear_error();
  close(fd);
  return out;
}

struct TlsTest : testing::Test {
  // OpenSSL writes to connections that the server has closed.
  static void SetUpTestSuite() { std::signal(SIGPIPE, SIG_IGN); }

  TestServer server{1};
  Identity me = identity(2), victim = identity(3);

  Outcome connect(const Identity& certificate, EVP_PKEY* key, int version = TLS1_3_VERSION) {
    const CertPtr x509 = certificate_from_pem(certificate.certificate_pem());
    return tls_connect(server.server->port(), x509.get(), key, version);
  }
};

TEST_F(TlsTest, AnOwnKeyIsTaken) {
  const KeyPtr key = key_from_pem(me.private_key_pem());
  const Outcome out = connect(me, key.get());
  EXPECT_TRUE(out.connected);
  EXPECT_EQ(out.version, TLS1_3_VERSION);
}

TEST_F(TlsTest, AnotherPeersCertificateWithoutItsKeyIsRefused) {
  const KeyPtr forged = forged_key(victim, me);
  EXPECT_FALSE(connect(victim, forged.get()).connected);
}

TEST_F(TlsTest, NoCertificateIsRefused) {
  EXPECT_FALSE(tls_connect(server.server->port(), nullptr, nullptr, TLS1_3_VERSION).connected);
}

TEST_F(TlsTest, OtherKindsOfKeyAreRefused) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const CertPtr x509(X509_new());
  X509_set_version(x509.get(), 2);
  X509_gmtime_adj(X509_getm_notBefore(x509.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x509.get()), 3600);
  X509_set_pubkey(x509.get(), key.get());
  ASSERT_GT(X509_sign(x509.get(), key.get(), EVP_sha256()), 0);
  EXPECT_FALSE(tls_connect(server.server->port(), x509.get(), key.get(), TLS1_3_VERSION).connected);
}

// gRPC 1.51 aborts on an address of 5 bytes if it sees one.
TEST_F(TlsTest, AlternativeNamesAreNotRead) {
  const KeyPtr key = key_from_pem(me.private_key_pem());
  for (const char* names : {"DER:30:07:87:05:01:02:03:04:05", "DER:30:02:87:00", "DNS:a,IP:::1"}) {
    const CertPtr x509 = certificate_from_pem(me.certificate_pem());
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names);
    ASSERT_NE(extension, nullptr);
    ASSERT_EQ(X509_add_ext(x509.get(), extension, -1), 1);
    X509_EXTENSION_free(extension);
    ASSERT_GT(X509_sign(x509.get(), key.get(), nullptr), 0);
    EXPECT_TRUE(tls_connect(server.server->port(), x509.get(), key.get(), TLS1_3_VERSION).connected)
        << names;
  }
  EXPECT_TRUE(connect(me, key.get()).connected);
}

TEST_F(TlsTest, OlderVersionsAreRefused) {
  const KeyPtr key = key_from_pem(me.private_key_pem());
  EXPECT_FALSE(connect(me, key.get(), TLS1_2_VERSION).connected);
}

TEST(KeyCheckTest, PinsAndRemembers) {
  const std::string a = identity(1).certificate_pem(), b = identity(2).certificate_pem();
  KeyCheck pinned(identity(1).id());
  EXPECT_TRUE(pinned.check(a));
  EXPECT_FALSE(pinned.refusal());
  EXPECT_FALSE(pinned.check(b));
  EXPECT_EQ(pinned.refusal()->code, Code::kPermissionDenied);
  KeyCheck any(PeerId{});
  EXPECT_TRUE(any.check(b));
  EXPECT_FALSE(any.check(a));  // the channel stays with the first it met
  EXPECT_TRUE(any.check(b));
  EXPECT_FALSE(any.check("no certificate"));
}

TEST(CertificateKeysTest, RemembersWhatIsOne) {
  CertificateKeys keys;
  const std::string a = identity(1).certificate_pem(), b = identity(2).certificate_pem();
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(keys.key_of(a), identity(1).public_key());
    EXPECT_EQ(keys.key_of(b), identity(2).public_key());
    EXPECT_FALSE(keys.key_of(a.substr(0, a.size() / 2)));
    EXPECT_FALSE(keys.key_of(""));
  }
  EXPECT_EQ(keys.size(), 2u);
  // The same key in another text is another entry, the text too long is none.
  EXPECT_EQ(keys.key_of("x\n" + a), identity(1).public_key());
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys.key_of(std::string(5000, '\n') + a), identity(1).public_key());
  EXPECT_EQ(keys.size(), 3u);
}

TEST(CertificateKeysTest, IsBounded) {
  CertificateKeys keys;
  const std::string a = identity(1).certificate_pem();
  for (size_t i = 0; i < CertificateKeys::kMaxKeys + 10; i++)
    ASSERT_TRUE(keys.key_of(std::to_string(i) + "\n" + a));
  EXPECT_EQ(keys.size(), 10u);
}

}  // namespace
}  // namespace meadow::rpc
