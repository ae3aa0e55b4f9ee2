#include "rpc/admission.h"

#include <algorithm>

#include "base/rng.h"

namespace meadow::rpc {

Digest admission_proof(const Digest& admission_key, Role role, const Handshake& handshake) {
  using namespace std::string_view_literals;
  const std::string_view label =
      role == Role::kClient ? "meadow admission 1 client\0"sv : "meadow admission 1 server\0"sv;
  return hmac_sha256(admission_key.bytes,
                     {as_bytes(label), handshake.client_key.bytes, handshake.server_key.bytes,
                      handshake.client_nonce.bytes, handshake.server_nonce.bytes});
}

Admission::Admission(Digest key, PublicKey own, const Clock& clock, AdmissionLimits limits)
    : key_(key), own_(own), clock_(clock), limits_(limits) {}

void Admission::drop_pending(const Nonce& nonce) {
  const auto it = pending_.find(nonce);
  if (it == pending_.end()) return;
  const auto of = pending_of_.find(it->second.client);
  std::erase(of->second, nonce);
  if (of->second.empty()) pending_of_.erase(of);
  pending_.erase(it);
}

void Admission::expire(TimePoint now) {
  while (!pending_order_.empty()) {
    const auto it = pending_.find(pending_order_.front());
    if (it != pending_.end() && now < it->second.until) break;
    drop_pending(pending_order_.front());
    pending_order_.pop_front();
  }
}

Nonce Admission::hello(const PublicKey& client, const Nonce& client_nonce) {
  Nonce nonce;
  random_bytes(nonce.bytes);
  std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  expire(now);
  std::deque<Nonce>& own = pending_of_[client];
  own.push_back(nonce);
  pending_[nonce] = {client, client_nonce, now + limits_.handshake};
  pending_order_.push_back(nonce);
  if (own.size() > limits_.pending_per_peer) drop_pending(Nonce(own.front()));
  while (pending_order_.size() > limits_.pending) {
    drop_pending(pending_order_.front());
    pending_order_.pop_front();
  }
  return nonce;
}

Result<Digest> Admission::prove(const PublicKey& client, const Nonce& nonce, const Digest& proof) {
  std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  expire(now);
  const auto it = pending_.find(nonce);
  if (it == pending_.end() || it->second.client != client)
    return fail(Code::kPermissionDenied,
                "no handshake of this peer is open under that nonce; say hello again");
  const Handshake handshake{client, own_, it->second.client_nonce, nonce};
  drop_pending(nonce);
  const Digest expected = admission_proof(key_, Role::kClient, handshake);
  if (!equal_constant_time(expected.bytes, proof.bytes))
    return fail(Code::kPermissionDenied,
                "the proof does not fit this swarm: another name or another secret");
  make_room_for_admitted(now);
  admitted_[client] = now + limits_.admission;
  return admission_proof(key_, Role::kServer, handshake);
}

void Admission::make_room_for_admitted(TimePoint now) {
  if (admitted_.size() < limits_.admitted) return;
  std::erase_if(admitted_, [now](const auto& entry) { return now >= entry.second; });
  if (admitted_.size() < limits_.admitted) return;
  admitted_.erase(
      std::min_element(admitted_.begin(), admitted_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; }));
}

bool Admission::admitted(const PublicKey& client) {
  std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  const auto it = admitted_.find(client);
  if (it == admitted_.end()) return false;
  if (now >= it->second) {
    admitted_.erase(it);
    return false;
  }
  it->second = now + limits_.admission;
  return true;
}

Admission::Sizes Admission::sizes() const {
  std::lock_guard lock(mutex_);
  return {pending_.size(), admitted_.size()};
}

}  // namespace meadow::rpc
