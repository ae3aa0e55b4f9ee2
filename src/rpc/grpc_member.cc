#include "rpc/grpc_member.h"

#include "rpc/link_core.h"

namespace meadow::rpc {
namespace {

// Reply message to ours; a malformed one is the other end's fault.
template <class Ours, class Reply>
std::function<void(Result<Reply>)> converting(std::function<void(Result<Ours>)> done,
                                              const std::string& address) {
  return [done = std::move(done), address](Result<Reply> reply) {
    if (!reply) return done(fail(std::move(reply).error()));
    Result<Ours> ours = from_proto(*reply);
    if (!ours)
      return done(
          fail(Code::kCorrupt, "{} sent a malformed reply: {}", address, ours.error().message));
    done(std::move(ours));
  };
}

void send_ping(Link& link, grpc::ClientContext* context, const pb::PingRequest* request,
               pb::PingReply* reply, std::function<void(grpc::Status)> end) {
  link.member().async()->Ping(context, request, reply, std::move(end));
}

}  // namespace

void GrpcMember::exchange(const std::string& address, swarm::ExchangeRequest request,
                          Deadline deadline,
                          std::function<void(Result<swarm::ExchangeReply>)> done) {
  auto message = std::make_shared<pb::ExchangeRequest>();
  to_proto(request, message.get());
  links_.core()->call<pb::ExchangeRequest, pb::ExchangeReply>(
      links_.core()->link(address, expected_at(address)),
      [](Link& link, grpc::ClientContext* context, const pb::ExchangeRequest* exchange,
         pb::ExchangeReply* reply, std::function<void(grpc::Status)> end) {
        link.member().async()->Exchange(context, exchange, reply, std::move(end));
      },
      std::move(message), deadline,
      converting<swarm::ExchangeReply, pb::ExchangeReply>(std::move(done), address));
}

void GrpcMember::introduce(const std::string& address, swarm::IntroduceRequest request,
                           Deadline deadline,
                           std::function<void(Result<swarm::IntroduceReply>)> done) {
  auto message = std::make_shared<pb::IntroduceRequest>();
  to_proto(request, message.get());
  links_.core()->call<pb::IntroduceRequest, pb::IntroduceReply>(
      links_.core()->link(address, expected_at(address)),
      [](Link& link, grpc::ClientContext* context, const pb::IntroduceRequest* introduce,
         pb::IntroduceReply* reply, std::function<void(grpc::Status)> end) {
        link.member().async()->Introduce(context, introduce, reply, std::move(end));
      },
      std::move(message), deadline,
      converting<swarm::IntroduceReply, pb::IntroduceReply>(std::move(done), address));
}

void GrpcMember::ping(const swarm::PeerAddress& peer, Deadline deadline,
                      std::function<void(Result<Duration>)> done) {
  const std::shared_ptr<Links::Core> core = links_.core();
  const std::shared_ptr<Link> link = core->link(peer.address, peer.id);
  auto request = std::make_shared<const pb::PingRequest>();
  // The first call connects and proves; only the second is timed.
  core->call<pb::PingRequest, pb::PingReply>(
      link, send_ping, request, deadline,
      [core, link, request, deadline, done = std::move(done)](Result<pb::PingReply> first) mutable {
        if (!first) return done(fail(std::move(first).error()));
        const TimePoint start = core->clock().now();
        core->call<pb::PingRequest, pb::PingReply>(
            link, send_ping, request, deadline,
            [core, start, done = std::move(done)](Result<pb::PingReply> second) {
              if (!second) return done(fail(std::move(second).error()));
              done(core->clock().now() - start);
            });
      });
}

}  // namespace meadow::rpc
