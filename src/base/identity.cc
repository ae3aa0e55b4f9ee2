#include "base/identity.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/check.h"
#include "base/rng.h"

namespace meadow {

struct Identity::Key {
  EVP_PKEY* pkey = nullptr;
  explicit Key(EVP_PKEY* p) : pkey(p) {}
  Key(const Key&) = delete;
  ~Key() { EVP_PKEY_free(pkey); }
};

namespace {

template <class T, void (*Free)(T*)>
struct Freer {
  void operator()(T* p) const { Free(p); }
};
using BioPtr = std::unique_ptr<BIO, decltype([](BIO* b) { BIO_free(b); })>;
using X509Ptr = std::unique_ptr<X509, Freer<X509, X509_free>>;
using PkeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using MdCtxPtr = std::unique_ptr<EVP_MD_CTX, Freer<EVP_MD_CTX, EVP_MD_CTX_free>>;

std::string take(BIO* bio) {
  char* data = nullptr;
  const long n = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(n));
}

// Writes a new file that only its owner can read; fails if it exists.
Result<void> write_new(const std::string& path, std::string_view text) {
  const std::string temporary = path + "." + std::to_string(getpid()) + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return fail(Code::kUnavailable, "cannot create identity file {}: {}", path, strerror(errno));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(fd) == 0;
  const int write_errno = errno;
  ::close(fd);
  // link() and not rename(): of two processes that start at once, one key wins for both
  const bool linked = written && ::link(temporary.c_str(), path.c_str()) == 0;
  const int link_errno = errno;
  ::unlink(temporary.c_str());
  if (!written)
    return fail(Code::kUnavailable, "cannot write identity file {}: {}", path,
                strerror(write_errno));
  if (!linked && link_errno != EEXIST)
    return fail(Code::kUnavailable, "cannot create identity file {}: {}", path,
                strerror(link_errno));
  return {};
}

}  // namespace

Identity::Identity(std::shared_ptr<const Key> key) : key_(std::move(key)) {
  size_t length = PublicKey::kSize;
  MEADOW_CHECK(EVP_PKEY_get_raw_public_key(key_->pkey, public_key_.bytes.data(), &length) == 1);
  id_ = peer_id_of(public_key_);
}

Identity Identity::generate() {
  std::array<uint8_t, 32> seed;
  random_bytes(seed);
  return from_seed(seed);
}

Identity Identity::from_seed(ByteView seed) {
  MEADOW_CHECK(seed.size() == 32);
  EVP_PKEY* pkey =
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size());
  MEADOW_CHECK(pkey != nullptr);
  return Identity(std::make_shared<Key>(pkey));
}

Result<Identity> Identity::load_or_create(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0)
    MEADOW_TRY_VOID(write_new(path, generate().private_key_pem()));
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(Code::kNotFound, "cannot read identity file {}: {}", path, strerror(errno));
  std::string pem(4096, '\0');
  in.read(pem.data(), static_cast<std::streamsize>(pem.size()));
  pem.resize(static_cast<size_t>(in.gcount()));
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  EVP_PKEY* pkey = PEM_read_bio_PrivateKey(
      bio.get(), nullptr, [](char*, int, int, void*) { return 0; }, nullptr);
  if (pkey == nullptr || EVP_PKEY_get_id(pkey) != EVP_PKEY_ED25519) {
    EVP_PKEY_free(pkey);
    return fail(Code::kCorrupt,
                "identity file {} does not hold an Ed25519 key in PEM form; move it away and a new "
                "identity is made",
                path);
  }
  return Identity(std::make_shared<Key>(pkey));
}

Signature Identity::sign(ByteView message) const {
  MdCtxPtr ctx(EVP_MD_CTX_new());
  Signature out;
  size_t length = Signature::kSize;
  MEADOW_CHECK(EVP_DigestSignInit(ctx.get(), nullptr, nullptr, nullptr, key_->pkey) == 1);
  MEADOW_CHECK(
      EVP_DigestSign(ctx.get(), out.bytes.data(), &length, message.data(), message.size()) == 1);
  return out;
}

std::string Identity::private_key_pem() const {
  BioPtr bio(BIO_new(BIO_s_mem()));
  MEADOW_CHECK(PEM_write_bio_PKCS8PrivateKey(bio.get(), key_->pkey, nullptr, nullptr, 0, nullptr,
                                             nullptr) == 1);
  return take(bio.get());
}

std::string Identity::certificate_pem() const {
  X509Ptr cert(X509_new());
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  // Nobody checks dates: leases carry lifetimes, by the reader's clock.
  ASN1_TIME_set_string_X509(X509_getm_notBefore(cert.get()), "20200101000000Z");
  ASN1_TIME_set_string_X509(X509_getm_notAfter(cert.get()), "99991231235959Z");
  X509_set_pubkey(cert.get(), key_->pkey);
  X509_NAME* subject = X509_get_subject_name(cert.get());
  const std::string common_name = hex(id_, 16);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  X509_set_issuer_name(cert.get(), subject);
  MEADOW_CHECK(X509_sign(cert.get(), key_->pkey, nullptr) > 0);
  BioPtr bio(BIO_new(BIO_s_mem()));
  MEADOW_CHECK(PEM_write_bio_X509(bio.get(), cert.get()) == 1);
  return take(bio.get());
}

PeerId peer_id_of(const PublicKey& key) {
  PeerId id;
  id.bytes = sha256(key.bytes).bytes;
  return id;
}

bool verify(const PublicKey& key, ByteView message, const Signature& signature) {
  PkeyPtr pkey(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.bytes.data(), PublicKey::kSize));
  if (!pkey) return false;
  MdCtxPtr ctx(EVP_MD_CTX_new());
  return EVP_DigestVerifyInit(ctx.get(), nullptr, nullptr, nullptr, pkey.get()) == 1 &&
         EVP_DigestVerify(ctx.get(), signature.bytes.data(), Signature::kSize, message.data(),
                          message.size()) == 1;
}

Result<PublicKey> public_key_of_certificate(std::string_view pem) {
  if (pem.size() > 64 * 1024)
    return fail(Code::kInvalidArgument, "certificate of {} bytes is larger than 65536", pem.size());
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  X509Ptr cert(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!cert) return fail(Code::kInvalidArgument, "not a PEM certificate");
  EVP_PKEY* pkey = X509_get0_pubkey(cert.get());
  PublicKey key;
  size_t length = PublicKey::kSize;
  if (pkey == nullptr || EVP_PKEY_get_id(pkey) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(pkey, key.bytes.data(), &length) != 1 ||
      length != PublicKey::kSize)
    return fail(Code::kInvalidArgument, "the certificate's key is not Ed25519");
  return key;
}

}  // namespace meadow
