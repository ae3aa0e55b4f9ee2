// Wire messages to our structs and back. From the wire everything is checked that needs no session:
// lengths of ids, known enum values, ranges, sizes. What passes here indexes and allocates nothing
// unbounded later.
// Thread rule: pure functions. Errors are kInvalidArgument and name the field.
#pragma once
#include "meadow/v1/member.pb.h"
#include "meadow/v1/session.pb.h"
#include "swarm/gossip.h"
#include "swarm/messages.h"

namespace meadow::rpc {

namespace pb = ::meadow::v1;

// A message on the wire is at most this long: a full payload and room for the fields around it.
constexpr int kMaxMessageBytes = static_cast<int>(swarm::kMaxStepBytes) + (64 << 10);

// Lease versions that an exchange may name, and ask for.
constexpr size_t kMaxKnownPerExchange = 16384;

// Sessions ------------------------------------------------------------------------------------
void to_proto(swarm::ClientMessage&& message, pb::ClientMessage* out);
void to_proto(swarm::ServerMessage&& message, pb::ServerMessage* out);
void to_proto(swarm::PushRequest&& message, pb::PushRequest* out);
Result<swarm::ClientMessage> from_proto(const pb::ClientMessage& in);
Result<swarm::ServerMessage> from_proto(const pb::ServerMessage& in);
Result<swarm::PushRequest> from_proto(const pb::PushRequest& in);

// Membership: lists beyond what a message may carry are cut on writing (gossip repeats itself) and
// refused on reading.
void to_proto(const swarm::ExchangeRequest& message, pb::ExchangeRequest* out);
void to_proto(const swarm::ExchangeReply& message, pb::ExchangeReply* out);
void to_proto(const swarm::IntroduceRequest& message, pb::IntroduceRequest* out);
void to_proto(const swarm::IntroduceReply& message, pb::IntroduceReply* out);
Result<swarm::ExchangeRequest> from_proto(const pb::ExchangeRequest& in);
Result<swarm::ExchangeReply> from_proto(const pb::ExchangeReply& in);
Result<swarm::IntroduceRequest> from_proto(const pb::IntroduceRequest& in);
Result<swarm::IntroduceReply> from_proto(const pb::IntroduceReply& in);

// Fixed-size ids.
template <class Fixed>
std::string wire_bytes(const Fixed& id) {
  return std::string(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
}
template <class Fixed>
Result<Fixed> fixed(std::string_view bytes, std::string_view field) {
  if (auto id = fixed_from<Fixed>(as_bytes(bytes))) return *id;
  return fail(Code::kInvalidArgument, "{}: expected {} bytes, got {}", field, Fixed::kSize,
              bytes.size());
}

}  // namespace meadow::rpc
