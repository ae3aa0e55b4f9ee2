#include "rpc/wire_bytes.h"

#include "rpc/convert.h"
#include "rpc/tls.h"

namespace meadow::rpc {
namespace {

template <class Wire>
auto parse(ByteView bytes) -> decltype(from_proto(std::declval<const Wire&>())) {
  init_grpc();  // and with it protobuf's log
  Wire wire;
  if (bytes.size() > size_t{kMaxMessageBytes})
    return fail(Code::kInvalidArgument, "a message of {} bytes, the limit is {}", bytes.size(),
                kMaxMessageBytes);
  if (!wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(Code::kCorrupt, "these {} bytes are no {}", bytes.size(), wire.GetTypeName());
  return from_proto(wire);
}

template <class Wire, class Message>
Bytes bytes_of(Message&& message) {
  Wire wire;
  to_proto(std::forward<Message>(message), &wire);
  Bytes out(wire.ByteSizeLong());
  wire.SerializeToArray(out.data(), static_cast<int>(out.size()));
  return out;
}

}  // namespace

Result<swarm::ClientMessage> parse_client_message(ByteView bytes) {
  return parse<pb::ClientMessage>(bytes);
}
Result<swarm::ServerMessage> parse_server_message(ByteView bytes) {
  return parse<pb::ServerMessage>(bytes);
}
Result<swarm::PushRequest> parse_push(ByteView bytes) { return parse<pb::PushRequest>(bytes); }
Result<swarm::ExchangeRequest> parse_exchange(ByteView bytes) {
  return parse<pb::ExchangeRequest>(bytes);
}

Bytes serialise(swarm::ClientMessage message) {
  return bytes_of<pb::ClientMessage>(std::move(message));
}
Bytes serialise(swarm::ServerMessage message) {
  return bytes_of<pb::ServerMessage>(std::move(message));
}
Bytes serialise(swarm::PushRequest message) {
  return bytes_of<pb::PushRequest>(std::move(message));
}
Bytes serialise(const swarm::ExchangeRequest& message) {
  return bytes_of<pb::ExchangeRequest>(message);
}

}  // namespace meadow::rpc
