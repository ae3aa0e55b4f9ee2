#include "rpc/openssl_guard.h"

#include <openssl/crypto.h>
#include <openssl/x509v3.h>

// Stands before libcrypto's function of this name in every program that links this file, also for
// calls from libgrpc. gRPC calls it for alternative names only, and nothing here calls it.
extern "C" __attribute__((visibility("default"), used)) void* X509_get_ext_d2i(
    const X509* certificate, int nid, int* critical, int* index) {
  if (nid != NID_subject_alt_name)
    return X509V3_get_d2i(X509_get0_extensions(certificate), nid, critical, index);
  if (critical != nullptr) *critical = -1;  // as for a certificate that has none
  return nullptr;
}

namespace meadow::rpc {
namespace {

// As the program starts: whoever touches OpenSSL first decides about its clean-up.
const int no_clean_up = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);

}  // namespace

void guard_openssl() { (void)no_clean_up; }

}  // namespace meadow::rpc
