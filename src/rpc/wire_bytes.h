// Serialised messages of the wire to our structs and back, for what handles bytes instead of calls:
// fuzzing, tests. Same checks as every call goes through.
// Thread rule: pure functions.
#pragma once
#include "base/bytes.h"
#include "swarm/gossip.h"
#include "swarm/messages.h"

namespace meadow::rpc {

// kCorrupt: no protobuf message of that kind; otherwise as convert.h.
Result<swarm::ClientMessage> parse_client_message(ByteView bytes);
Result<swarm::ServerMessage> parse_server_message(ByteView bytes);
Result<swarm::PushRequest> parse_push(ByteView bytes);
Result<swarm::ExchangeRequest> parse_exchange(ByteView bytes);

Bytes serialise(swarm::ClientMessage message);
Bytes serialise(swarm::ServerMessage message);
Bytes serialise(swarm::PushRequest message);
Bytes serialise(const swarm::ExchangeRequest& message);

}  // namespace meadow::rpc
