#include "rpc/grpc_push.h"

#include "rpc/link_core.h"

namespace meadow::rpc {

void GrpcPush::push(const swarm::PeerAddress& to, swarm::PushRequest request, Deadline deadline,
                    std::function<void(Result<void>)> done) {
  auto message = std::make_shared<pb::PushRequest>();
  to_proto(std::move(request), message.get());
  links_.core()->call<pb::PushRequest, pb::PushReply>(
      links_.core()->link(to.address, to.id),
      [](Link& link, grpc::ClientContext* context, const pb::PushRequest* push,
         pb::PushReply* reply, std::function<void(grpc::Status)> end) {
        link.span().async()->Push(context, push, reply, std::move(end));
      },
      std::move(message), deadline,
      [done = std::move(done)](Result<pb::PushReply> reply) {
        if (!reply) return done(fail(std::move(reply).error()));
        done({});
      });
}

}  // namespace meadow::rpc
