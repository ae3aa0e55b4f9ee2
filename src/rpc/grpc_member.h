// MemberPort over gRPC: calls to members by address (whatever key answers, once it has proved the
// swarm's secret), and pings to known peers.
// Thread rule: any thread; `done` runs on a gRPC thread and must not block. Borrows the links.
#pragma once
#include "rpc/links.h"
#include "swarm/gossip.h"

namespace meadow::rpc {

class GrpcMember final : public swarm::MemberPort {
 public:
  explicit GrpcMember(Links& links) : links_(links) {}

  void exchange(const std::string& address, swarm::ExchangeRequest request, Deadline deadline,
                std::function<void(Result<swarm::ExchangeReply>)> done) override;
  void introduce(const std::string& address, swarm::IntroduceRequest request, Deadline deadline,
                 std::function<void(Result<swarm::IntroduceReply>)> done) override;
  // Two calls; the second one's time counts, so that connecting does not.
  void ping(const swarm::PeerAddress& peer, Deadline deadline,
            std::function<void(Result<Duration>)> done) override;

 private:
  Links& links_;
};

}  // namespace meadow::rpc
