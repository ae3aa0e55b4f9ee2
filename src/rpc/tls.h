// Mutual TLS 1.3 with pinned Ed25519 keys. A certificate means nothing but the key inside; TLS
// itself proves that the other end holds its secret half. The dialling end checks the key against
// the peer id it wants; the listening end takes any such key and learns who calls.
// Thread rule: any thread.
#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/identity.h"
#include "base/result.h"

namespace meadow::rpc {

// Once per process, before any channel or server: TLS 1.3 only, no proxies, gRPC's log silenced
// (unless the environment has GRPC_VERBOSITY). Idempotent.
void init_grpc();

// What a channel's key check has said last; shared with the channel's calls, because gRPC itself
// reports every failed handshake as "unavailable".
class KeyCheck {
 public:
  // Zero `expected`: any Ed25519 key, but when the channel connects again only the same one, so
  // that nobody inherits a link on which another has proved the secret.
  explicit KeyCheck(PeerId expected) : expected_(expected) {}
  Result<void> check(std::string_view certificate_pem);
  std::optional<Error> refusal() const;

 private:
  mutable std::mutex mutex_;
  PeerId expected_;
  std::optional<Error> refusal_;
};

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Identity& own,
                                                              std::shared_ptr<KeyCheck> check);
std::shared_ptr<grpc::ServerCredentials> server_credentials(const Identity& own);

// Keys of certificates, remembered: OpenSSL 3.0 takes 0.3 ms to read one, and every call asks for
// its caller's. Any thread. Bounded: a full table starts anew.
class CertificateKeys {
 public:
  // As public_key_of_certificate(); what is no certificate of ours is not remembered.
  Result<PublicKey> key_of(std::string_view pem);
  size_t size() const;

  static constexpr size_t kMaxKeys = 1024;
  static constexpr size_t kMaxPemBytes = 4096;  // longer ones are read each time

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, PublicKey> keys_;  // by certificate
};

// The other end's key of a call on a TLS link; kPermissionDenied if there is none.
Result<PublicKey> key_of(const grpc::AuthContext& context);

// `insecure` links: the caller tells its key in this metadata entry, in hexadecimal.
constexpr char kInsecureKeyMetadata[] = "meadow-insecure-key";

}  // namespace meadow::rpc
