// PushPort over gRPC: one unary call per output.
// Thread rule: any thread; `done` runs on a gRPC thread and must not block. Borrows the links.
#pragma once
#include "rpc/links.h"
#include "swarm/ports.h"

namespace meadow::rpc {

class GrpcPush final : public swarm::PushPort {
 public:
  explicit GrpcPush(Links& links) : links_(links) {}

  // Fails at once (kUnavailable) if nobody listens at the address.
  void push(const swarm::PeerAddress& to, swarm::PushRequest request, Deadline deadline,
            std::function<void(Result<void>)> done) override;

 private:
  Links& links_;
};

}  // namespace meadow::rpc
