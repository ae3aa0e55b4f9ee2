// The outgoing side of a peer: channels to other peers, each pinned to a key and admitted by proof
// of the swarm's secret. Shared by GrpcConnector, GrpcPush and GrpcMember.
// Thread rule: any thread. Owns channels and calls in flight; the destructor cancels those, waits
// for their callbacks and must not run on a gRPC thread.
#pragma once
#include <memory>

#include "base/clock.h"
#include "base/identity.h"
#include "swarm/gossip.h"

namespace meadow::rpc {

// Who we are and which swarm we belong to; the same for both sides of every link.
struct RpcOptions {
  Identity identity;
  swarm::SwarmKey swarm;
  // For benches only: no TLS, and peers are believed when they tell their key. A secure server
  // takes no insecure client and the other way round.
  bool insecure = false;
};

class Links {
 public:
  Links(RpcOptions options, const Clock& clock);  // borrows the clock
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  class Core;
  const std::shared_ptr<Core>& core() const { return core_; }

 private:
  std::shared_ptr<Core> core_;
};

// Channels kept at once; the one unused for longest makes room.
constexpr size_t kMaxLinks = 256;

}  // namespace meadow::rpc
