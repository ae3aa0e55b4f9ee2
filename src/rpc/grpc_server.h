// The listening side of a peer: membership always, a span once it is loaded.
// Thread rule: any thread; handlers run on gRPC threads, which never compute. Owns the listening
// port; borrows handler, service, worker and clock. shutdown() (or the destructor) comes before
// theirs and must not run on a gRPC thread.
#pragma once
#include <memory>
#include <string>

#include "rpc/links.h"
#include "swarm/span_service.h"

namespace meadow::rpc {

struct GrpcServerOptions {
  std::string listen = "0.0.0.0:0";       // HOST:PORT or [IPv6]:PORT; port 0: a free one
  int max_streams = 1024;                 // sessions' streams at once, all clients together
  size_t memory_bytes = size_t{1} << 30;  // what gRPC may hold for messages under way
  // Inputs accepted but not yet computed: a stream over its share is not read on, a push over the
  // server's is refused with kResourceExhausted.
  int64_t max_pending_bytes_per_stream = int64_t{32} << 20;
  int64_t max_pending_bytes = int64_t{512} << 20;
  // Outputs that wait for a client that does not read; beyond them its stream is closed.
  int64_t max_queued_bytes_per_stream = int64_t{256} << 20;
};

struct GrpcServerStats {
  uint64_t bytes_received = 0, bytes_sent = 0;  // messages and their framing
  int64_t streams = 0;                          // open now
  int64_t malformed = 0;                        // messages refused as such
  int64_t not_admitted = 0;                     // calls refused for want of a proof
};

class GrpcServer {
 public:
  // Binds and answers. kUnavailable: the port is in use; kInvalidArgument: no such address here.
  static Result<std::unique_ptr<GrpcServer>> start(RpcOptions options,
                                                   GrpcServerOptions server_options,
                                                   swarm::MemberHandler& members,
                                                   const Clock& clock);
  ~GrpcServer();

  // host:port that is bound, with the real port; the host as given (it may be 0.0.0.0).
  const std::string& address() const;
  int port() const;
  const PeerId& id() const;  // own

  // From now on sessions and pushes go to `service`, computed by `worker` (for the bounds on what
  // waits for it). Until then, and after host(nullptr, nullptr), they get kUnavailable.
  void host(swarm::SpanService* service, swarm::Worker* worker);

  // Takes no new calls, gives those under way until `drain` has passed, then cancels. Blocks until
  // no handler runs. Idempotent.
  void shutdown(Duration drain);
  GrpcServerStats stats() const;

  class Core;

 private:
  explicit GrpcServer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace meadow::rpc
