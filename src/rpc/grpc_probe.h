// ProbePort over gRPC.
// Thread rule: any thread; `done` runs on a gRPC thread and must not block. Borrows the links.
#pragma once
#include "rpc/links.h"
#include "swarm/ports.h"

namespace meadow::rpc {

class GrpcProbe final : public swarm::ProbePort {
 public:
  explicit GrpcProbe(Links& links) : links_(links) {}

  void probe(const swarm::PeerAddress& peer, uint32_t bytes_each_way, Deadline deadline,
             std::function<void(Result<Duration>)> done) override;

 private:
  Links& links_;
};

}  // namespace meadow::rpc
