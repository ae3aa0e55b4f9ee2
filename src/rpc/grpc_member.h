// MemberPort over gRPC: calls to members by address and pings to known peers. Where the user said
// whose key must answer at an address (an invite does), no other is talked to; elsewhere whatever
// key answers is, once it has proved the swarm's secret.
// Thread rule: any thread; `done` runs on a gRPC thread and must not block. Borrows the links.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "rpc/links.h"
#include "swarm/gossip.h"

namespace meadow::rpc {

class GrpcMember final : public swarm::MemberPort {
 public:
  using Pins = std::map<std::string, PeerId>;  // address -> whose key must answer there
  explicit GrpcMember(Links& links, Pins pins = {}) : links_(links), pins_(std::move(pins)) {}

  void exchange(const std::string& address, swarm::ExchangeRequest request, Deadline deadline,
                std::function<void(Result<swarm::ExchangeReply>)> done) override;
  void introduce(const std::string& address, swarm::IntroduceRequest request, Deadline deadline,
                 std::function<void(Result<swarm::IntroduceReply>)> done) override;
  // Two calls; the second one's time counts, so that connecting does not.
  void ping(const swarm::PeerAddress& peer, Deadline deadline,
            std::function<void(Result<Duration>)> done) override;

 private:
  // Zero: any key.
  PeerId expected_at(const std::string& address) const {
    const auto pin = pins_.find(address);
    return pin == pins_.end() ? PeerId{} : pin->second;
  }

  Links& links_;
  const Pins pins_;
};

}  // namespace meadow::rpc
