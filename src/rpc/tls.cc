#include "rpc/tls.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "rpc/openssl_guard.h"

namespace meadow::rpc {
namespace {

using grpc::experimental::ExternalCertificateVerifier;
using grpc::experimental::TlsCustomVerificationCheckRequest;

std::string text_of(grpc::string_ref s) { return {s.data(), s.size()}; }

class Verifier : public ExternalCertificateVerifier {
 public:
  explicit Verifier(std::shared_ptr<KeyCheck> check) : check_(std::move(check)) {}
  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    if (auto ok = check_->check(text_of(request->peer_cert())); !ok)
      *sync_status = {grpc::UNAUTHENTICATED, ok.error().message};
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest*) override {}

 private:
  std::shared_ptr<KeyCheck> check_;
};

// The listening end: whose key it is matters to the handlers only.
class AnyKeyVerifier : public ExternalCertificateVerifier {
 public:
  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    if (auto key = public_key_of_certificate(text_of(request->peer_cert())); !key)
      *sync_status = {grpc::UNAUTHENTICATED, key.error().message};
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest*) override {}
};

std::shared_ptr<grpc::experimental::CertificateProviderInterface> own_certificate(
    const Identity& own) {
  return std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
      "", std::vector<grpc::experimental::IdentityKeyCertPair>{
              {own.private_key_pem(), own.certificate_pem()}});
}

// Errors reach our callers as statuses; only what gRPC says before it aborts must not be lost.
void drop_log(gpr_log_func_args* entry) {
  if (std::strstr(entry->message, "assertion failed") != nullptr)
    std::fprintf(stderr, "%s:%d: %s\n", entry->file, entry->line, entry->message);
}

}  // namespace

void init_grpc() {
  static const bool done = [] {
    guard_openssl();
    // gRPC 1.51 offers no way to set the lowest TLS version. It does take the suites for TLS 1.2
    // and below from the environment: this one needs a pre-shared key that nobody has, so that
    // only TLS 1.3, whose suites are listed apart, can be agreed on.
    setenv("GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-CHACHA20-POLY1305", 1);
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(drop_log);
    google::protobuf::SetLogHandler(nullptr);  // a message that does not parse is an error value
    return true;
  }();
  (void)done;
}

Result<void> KeyCheck::check(std::string_view certificate_pem) {
  const Result<PublicKey> key = public_key_of_certificate(certificate_pem);
  std::lock_guard lock(mutex_);
  refusal_.reset();
  if (!key) {
    refusal_ = Error{Code::kPermissionDenied, key.error().message};
  } else if (expected_.is_zero()) {
    expected_ = peer_id_of(*key);
  } else if (peer_id_of(*key) != expected_) {
    refusal_ = Error{Code::kPermissionDenied,
                     fmt::format("expected the key of peer {}, but {} answered",
                                 short_id(expected_), short_id(peer_id_of(*key)))};
  }
  if (refusal_) return fail(*refusal_);
  return {};
}

std::optional<Error> KeyCheck::refusal() const {
  std::lock_guard lock(mutex_);
  return refusal_;
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Identity& own,
                                                              std::shared_ptr<KeyCheck> check) {
  init_grpc();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(own_certificate(own));
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);  // no authorities here: the verifier pins the key
  options.set_check_call_host(false);
  options.set_certificate_verifier(ExternalCertificateVerifier::Create<Verifier>(std::move(check)));
  auto credentials = grpc::experimental::TlsCredentials(options);
  MEADOW_CHECK(credentials != nullptr);
  return credentials;
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Identity& own) {
  init_grpc();
  grpc::experimental::TlsServerCredentialsOptions options(own_certificate(own));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(ExternalCertificateVerifier::Create<AnyKeyVerifier>());
  auto credentials = grpc::experimental::TlsServerCredentials(options);
  MEADOW_CHECK(credentials != nullptr);
  return credentials;
}

Result<PublicKey> CertificateKeys::key_of(std::string_view pem) {
  std::string text(pem);
  {
    std::lock_guard lock(mutex_);
    if (const auto it = keys_.find(text); it != keys_.end()) return it->second;
  }
  MEADOW_TRY(const PublicKey key, public_key_of_certificate(pem));
  if (text.size() > kMaxPemBytes) return key;
  std::lock_guard lock(mutex_);
  if (keys_.size() >= kMaxKeys) keys_.clear();
  keys_.emplace(std::move(text), key);
  return key;
}

size_t CertificateKeys::size() const {
  std::lock_guard lock(mutex_);
  return keys_.size();
}

Result<PublicKey> key_of(const grpc::AuthContext& context) {
  const auto pem = context.FindPropertyValues("x509_pem_cert");
  if (pem.size() != 1)
    return fail(Code::kPermissionDenied, "the link shows no certificate of the other end");
  static CertificateKeys& keys = *new CertificateKeys;  // for the life of the process
  return keys.key_of({pem.front().data(), pem.front().size()});
}

}  // namespace meadow::rpc
