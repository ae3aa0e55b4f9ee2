#include "rpc/convert.h"
#include "rpc/server_core.h"
#include "rpc/status.h"

namespace meadow::rpc {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

ServerUnaryReactor* finish(CallbackServerContext* context, const grpc::Status& status) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

class MemberService final : public pb::Member::CallbackService {
 public:
  MemberService(ServerShared& shared, swarm::MemberHandler& members)
      : shared_(shared), members_(members) {}

 private:
  ServerUnaryReactor* Hello(CallbackServerContext* context, const pb::HelloRequest* request,
                            pb::HelloReply* reply) override {
    return finish(context, hello(*context, *request, reply));
  }
  ServerUnaryReactor* Prove(CallbackServerContext* context, const pb::ProveRequest* request,
                            pb::ProveReply* reply) override {
    return finish(context, prove(*context, *request, reply));
  }
  ServerUnaryReactor* Exchange(CallbackServerContext* context, const pb::ExchangeRequest* request,
                               pb::ExchangeReply* reply) override {
    return finish(context, answer(*context, *request, reply, [&](const PeerId& from, auto&& ours) {
                    return members_.exchange(from, ours);
                  }));
  }
  ServerUnaryReactor* Introduce(CallbackServerContext* context, const pb::IntroduceRequest* request,
                                pb::IntroduceReply* reply) override {
    return finish(context, answer(*context, *request, reply, [&](const PeerId& from, auto&& ours) {
                    return members_.introduce(from, ours);
                  }));
  }
  ServerUnaryReactor* Ping(CallbackServerContext* context, const pb::PingRequest*,
                           pb::PingReply*) override {
    const auto from = shared_.gate.admit(*context);
    return finish(context, from ? grpc::Status::OK : from.error());
  }

  ServerUnaryReactor* Probe(CallbackServerContext* context, const pb::ProbeRequest* request,
                            pb::ProbeReply* reply) override {
    return finish(context, probe(*context, *request, reply));
  }

  grpc::Status probe(const CallbackServerContext& context, const pb::ProbeRequest& request,
                     pb::ProbeReply* reply) {
    const auto from = shared_.gate.admit(context);
    if (!from) return from.error();
    if (request.payload().size() > swarm::kMaxProbeBytes ||
        request.reply_bytes() > swarm::kMaxProbeBytes)
      return malformed({Code::kInvalidArgument,
                        fmt::format("probe: at most {} bytes each way", swarm::kMaxProbeBytes)});
    if (!shared_.probes.take(*from, shared_.clock.now()))
      return to_status({Code::kResourceExhausted, "this peer was probed enough; a minute later"});
    reply->set_payload(std::string(request.reply_bytes(), '\0'));
    shared_.counters.bytes_received += request.ByteSizeLong();
    shared_.counters.bytes_sent += reply->ByteSizeLong();
    return grpc::Status::OK;
  }

  grpc::Status hello(const CallbackServerContext& context, const pb::HelloRequest& request,
                     pb::HelloReply* reply) {
    if (request.protocol() != kProtocol)
      return to_status({Code::kUnsupported,
                        fmt::format("this peer speaks protocol {}, the caller {}; use the same "
                                    "version",
                                    kProtocol, request.protocol())});
    const Result<PublicKey> client = shared_.gate.caller(context);
    if (!client) return to_status(client.error());
    const Result<Nonce> nonce = fixed<Nonce>(request.nonce(), "hello.nonce");
    if (!nonce) return malformed(nonce.error());
    reply->set_protocol(kProtocol);
    reply->set_nonce(wire_bytes(shared_.gate.admission().hello(*client, *nonce)));
    reply->set_key(wire_bytes(shared_.gate.own_key()));
    return grpc::Status::OK;
  }

  grpc::Status prove(const CallbackServerContext& context, const pb::ProveRequest& request,
                     pb::ProveReply* reply) {
    const Result<PublicKey> client = shared_.gate.caller(context);
    if (!client) return to_status(client.error());
    const Result<Nonce> nonce = fixed<Nonce>(request.nonce(), "prove.nonce");
    if (!nonce) return malformed(nonce.error());
    const Result<Digest> proof = fixed<Digest>(request.proof(), "prove.proof");
    if (!proof) return malformed(proof.error());
    const Result<Digest> own = shared_.gate.admission().prove(*client, *nonce, *proof);
    if (!own) {
      shared_.counters.not_admitted++;
      return to_status(own.error());
    }
    reply->set_proof(wire_bytes(*own));
    return grpc::Status::OK;
  }

  // The common way of Exchange and Introduce.
  template <class Request, class Reply, class Handler>
  grpc::Status answer(const CallbackServerContext& context, const Request& request, Reply* reply,
                      Handler handler) {
    const auto from = shared_.gate.admit(context);
    if (!from) return from.error();
    const auto ours = from_proto(request);
    if (!ours) return malformed(ours.error());
    to_proto(handler(*from, *ours), reply);
    shared_.counters.bytes_received += request.ByteSizeLong();
    shared_.counters.bytes_sent += reply->ByteSizeLong();
    return grpc::Status::OK;
  }

  grpc::Status malformed(const Error& error) {
    shared_.counters.malformed++;
    return to_status(error);
  }

  ServerShared& shared_;
  swarm::MemberHandler& members_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_member_service(ServerShared& shared,
                                                   swarm::MemberHandler& members) {
  return std::make_unique<MemberService>(shared, members);
}

}  // namespace meadow::rpc
