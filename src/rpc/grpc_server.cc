#include "rpc/grpc_server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rpc/convert.h"
#include "rpc/server_core.h"
#include "rpc/status.h"
#include "rpc/tls.h"
#include "swarm/address.h"

namespace meadow::rpc {
namespace {

// errno of binding to this address ourselves; 0 if that works. gRPC only says that it failed.
int bind_errno(const swarm::HostPort& at) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &found) != 0)
    return EADDRNOTAVAIL;
  int error = 0;
  for (const addrinfo* a = found; a != nullptr && error == 0; a = a->ai_next) {
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 1) != 0) error = errno;
    close(fd);
  }
  freeaddrinfo(found);
  return error;
}

Error listen_error(const swarm::HostPort& at) {
  const int error = bind_errno(at);
  const std::string where = swarm::format(at);
  if (error == EADDRINUSE)
    return {Code::kUnavailable,
            fmt::format("{}: the port is in use by another process; choose another with --listen, "
                        "or port 0 for a free one",
                        where)};
  if (error == EADDRNOTAVAIL)
    return {Code::kInvalidArgument,
            fmt::format("{}: this machine has no such address; --listen takes one of its own, or "
                        "0.0.0.0 for all",
                        where)};
  return {Code::kUnavailable, fmt::format("{}: cannot listen: {}", where,
                                          error == 0 ? "gRPC gave no reason" : strerror(error))};
}

void set_limits(grpc::ServerBuilder& builder, const GrpcServerOptions& options) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("meadow").Resize(options.memory_bytes));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // else two servers share the port
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 512);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  // Clients ping every second while a call stands; that is no offence.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // A client that vanished frees its cache after this.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
}

}  // namespace

Gate::Gate(const RpcOptions& options, const Clock& clock, ServerCounters& counters)
    : insecure_(options.insecure),
      own_key_(options.identity.public_key()),
      counters_(counters),
      admission_(options.swarm.admission(), own_key_, clock) {}

Result<PublicKey> Gate::caller(const grpc::CallbackServerContext& context) const {
  if (!insecure_) {
    const auto auth = context.auth_context();
    if (auth == nullptr) return fail(Code::kPermissionDenied, "the link is not secure");
    return key_of(*auth);
  }
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(kInsecureKeyMetadata);
  if (it == metadata.end())
    return fail(Code::kPermissionDenied, "an insecure link without {}", kInsecureKeyMetadata);
  MEADOW_TRY(const Bytes raw, from_hex({it->second.data(), it->second.size()}));
  return fixed_from<PublicKey>(raw);
}

std::expected<PeerId, grpc::Status> Gate::admit(const grpc::CallbackServerContext& context) {
  const Result<PublicKey> key = caller(context);
  if (key && admission_.admitted(*key)) return peer_id_of(*key);
  counters_.not_admitted++;
  if (!key) return std::unexpected(to_status(key.error()));
  return std::unexpected(
      grpc::Status(grpc::UNAUTHENTICATED, "prove the swarm's secret first (Hello, Prove)"));
}

class GrpcServer::Core {
 public:
  Core(const RpcOptions& options, const GrpcServerOptions& server_options,
       swarm::MemberHandler& members, const Clock& clock)
      : id(options.identity.id()),
        shared(options, server_options, clock),
        member_service(make_member_service(shared, members)),
        span_service(make_span_service(shared)) {}

  const PeerId id;
  ServerShared shared;
  std::unique_ptr<grpc::Service> member_service, span_service;
  std::string address;
  int port = 0;
  std::mutex shutdown_mutex;
  std::unique_ptr<grpc::Server> server;
};

Result<std::unique_ptr<GrpcServer>> GrpcServer::start(RpcOptions options,
                                                      GrpcServerOptions server_options,
                                                      swarm::MemberHandler& members,
                                                      const Clock& clock) {
  init_grpc();
  MEADOW_TRY(swarm::HostPort at, swarm::parse_address(server_options.listen));
  auto core = std::make_unique<Core>(options, server_options, members, clock);
  grpc::ServerBuilder builder;
  set_limits(builder, server_options);
  const auto credentials =
      options.insecure ? grpc::InsecureServerCredentials() : server_credentials(options.identity);
  builder.AddListeningPort(swarm::format(at), credentials, &core->port);
  builder.RegisterService(core->member_service.get());
  builder.RegisterService(core->span_service.get());
  core->server = builder.BuildAndStart();
  if (core->server == nullptr || core->port <= 0) return fail(listen_error(at));
  at.port = static_cast<uint16_t>(core->port);
  core->address = swarm::format(at);
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(core)));
}

GrpcServer::GrpcServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}

GrpcServer::~GrpcServer() { shutdown(Duration(0)); }

const std::string& GrpcServer::address() const { return core_->address; }
int GrpcServer::port() const { return core_->port; }
const PeerId& GrpcServer::id() const { return core_->id; }

void GrpcServer::host(swarm::SpanService* service, swarm::Worker* worker) {
  core_->shared.span.set({service, worker});
}

void GrpcServer::shutdown(Duration drain) {
  std::lock_guard lock(core_->shutdown_mutex);
  if (core_->server == nullptr) return;
  core_->server->Shutdown(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(drain));
  core_->server->Wait();
  core_->server.reset();
}

GrpcServerStats GrpcServer::stats() const {
  const ServerCounters& c = core_->shared.counters;
  return {.bytes_received = c.bytes_received,
          .bytes_sent = c.bytes_sent,
          .streams = c.streams,
          .malformed = c.malformed,
          .not_admitted = c.not_admitted};
}

}  // namespace meadow::rpc
