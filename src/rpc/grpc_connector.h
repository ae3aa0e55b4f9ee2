// SpanConnector over gRPC: one bidirectional stream per session and span.
// Thread rule: as the ports say; events are posted from gRPC threads. Borrows the links.
#pragma once
#include "rpc/links.h"
#include "swarm/ports.h"

namespace meadow::rpc {

class GrpcConnector final : public swarm::SpanConnector {
 public:
  explicit GrpcConnector(Links& links) : links_(links) {}

  // Only a peer whose key hashes to server.id is talked to. StreamClosed says
  //   kPermissionDenied  another key answered, or one side could not prove the secret
  //   kUnavailable       not reachable, gone, or it ended the stream
  //   kCorrupt           the server sent something that is no message
  //   anything else      as the server said
  std::unique_ptr<swarm::SpanStream> connect(const swarm::PeerAddress& server,
                                             swarm::OpenRequest request, swarm::EventInbox& inbox,
                                             uint64_t stream) override;

 private:
  Links& links_;
};

// Bytes a client may have queued on one stream (a session sends a few chunks ahead); beyond them
// the stream is closed with kResourceExhausted.
constexpr uint64_t kMaxQueuedByClient = uint64_t{256} << 20;

}  // namespace meadow::rpc
