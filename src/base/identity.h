// A peer's identity: an Ed25519 key (RFC 8032) kept in a file. The peer id is the SHA-256 of the
// raw public key, so a link pinned to an id is pinned to a key.
// Thread rule: immutable after creation; any thread.
#pragma once
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/types.h"

namespace meadow {

class Identity {
 public:
  // A new random key, kept nowhere.
  static Identity generate();
  // From 32 secret bytes: for tests and simulations, where ids must repeat.
  static Identity from_seed(ByteView seed);
  // Reads the key from `path`; makes and stores one (mode 0600, written whole or not at all) if
  // there is no such file. Blocks on the disk. kCorrupt if the file holds anything else.
  static Result<Identity> load_or_create(const std::string& path);

  const PeerId& id() const { return id_; }
  const PublicKey& public_key() const { return public_key_; }
  Signature sign(ByteView message) const;
  // PKCS#8 PEM of the secret key, for TLS.
  std::string private_key_pem() const;
  // A self-signed certificate over this key, PEM; its only meaning is the key inside.
  std::string certificate_pem() const;

 private:
  struct Key;
  explicit Identity(std::shared_ptr<const Key> key);
  std::shared_ptr<const Key> key_;
  PublicKey public_key_;
  PeerId id_;
};

PeerId peer_id_of(const PublicKey& key);
bool verify(const PublicKey& key, ByteView message, const Signature& signature);
// The raw Ed25519 key inside a PEM certificate; kInvalidArgument for any other text or kind of key.
Result<PublicKey> public_key_of_certificate(std::string_view pem);

}  // namespace meadow
