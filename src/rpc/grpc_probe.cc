#include "rpc/grpc_probe.h"

#include "rpc/link_core.h"

namespace meadow::rpc {

void GrpcProbe::probe(const swarm::PeerAddress& peer, uint32_t bytes_each_way, Deadline deadline,
                      std::function<void(Result<Duration>)> done) {
  const std::shared_ptr<Links::Core> core = links_.core();
  const std::shared_ptr<Link> link = core->link(peer.address, peer.id);
  // A ping connects and proves; only what follows is timed.
  core->call<pb::PingRequest, pb::PingReply>(
      link,
      [](Link& to, grpc::ClientContext* context, const pb::PingRequest* request,
         pb::PingReply* reply, std::function<void(grpc::Status)> end) {
        to.member().async()->Ping(context, request, reply, std::move(end));
      },
      std::make_shared<const pb::PingRequest>(), deadline,
      [core, link, bytes_each_way, deadline,
       done = std::move(done)](Result<pb::PingReply> connected) mutable {
        if (!connected) return done(fail(std::move(connected).error()));
        auto request = std::make_shared<pb::ProbeRequest>();
        request->set_payload(std::string(bytes_each_way, '\0'));
        request->set_reply_bytes(bytes_each_way);
        const TimePoint start = core->clock().now();
        core->call<pb::ProbeRequest, pb::ProbeReply>(
            link,
            [](Link& to, grpc::ClientContext* context, const pb::ProbeRequest* probe,
               pb::ProbeReply* reply, std::function<void(grpc::Status)> end) {
              to.member().async()->Probe(context, probe, reply, std::move(end));
            },
            std::move(request), deadline,
            [core, start, bytes_each_way, done = std::move(done)](Result<pb::ProbeReply> reply) {
              if (!reply) return done(fail(std::move(reply).error()));
              if (reply->payload().size() != bytes_each_way)
                return done(fail(Code::kCorrupt, "a probe for {} bytes brought {}", bytes_each_way,
                                 reply->payload().size()));
              done(core->clock().now() - start);
            });
      });
}

}  // namespace meadow::rpc
