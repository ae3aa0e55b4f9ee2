// Inside of GrpcServer: who calls and may he, the bounds on accepted inputs, the service's place.
// Thread rule: any thread.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "meadow/v1/member.grpc.pb.h"
#include "meadow/v1/session.grpc.pb.h"
#include "rpc/admission.h"
#include "rpc/grpc_server.h"
#include "rpc/probe_ration.h"

namespace meadow::rpc {

// Counters of one server.
struct ServerCounters {
  std::atomic<uint64_t> bytes_received{0}, bytes_sent{0};
  std::atomic<int64_t> streams{0}, malformed{0}, not_admitted{0};
};

// Tells the caller's key and whether it has proved the secret.
class Gate {
 public:
  Gate(const RpcOptions& options, const Clock& clock, ServerCounters& counters);

  Admission& admission() { return admission_; }
  const PublicKey& own_key() const { return own_key_; }
  // Whoever calls; kPermissionDenied without a key.
  Result<PublicKey> caller(const grpc::CallbackServerContext& context) const;
  // The caller's id if it is admitted; the status to end the call with otherwise.
  std::expected<PeerId, grpc::Status> admit(const grpc::CallbackServerContext& context);

 private:
  const bool insecure_;
  const PublicKey own_key_;
  ServerCounters& counters_;
  Admission admission_;
};

// Bytes of inputs accepted and not yet computed. They are given back by a task on the worker, which
// runs after what the service posted for that input.
class PendingInputs {
 public:
  explicit PendingInputs(int64_t limit) : limit_(limit) {}
  bool take(int64_t bytes) {
    if (bytes_.fetch_add(bytes) + bytes <= limit_) return true;
    bytes_ -= bytes;
    return false;
  }
  void give(int64_t bytes) { bytes_ -= bytes; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> bytes_{0};
};

// The hosted span, which may come and go while calls run.
class HostedSpan {
 public:
  struct Parts {
    swarm::SpanService* service = nullptr;
    swarm::Worker* worker = nullptr;
  };
  void set(Parts parts) {
    std::unique_lock lock(mutex_);
    parts_ = parts;
  }
  // Calls `use(parts)` while the span cannot be taken away.
  template <class Use>
  auto with(Use use) {
    std::shared_lock lock(mutex_);
    return use(parts_);
  }

 private:
  std::shared_mutex mutex_;
  Parts parts_;
};

// What the two services share.
struct ServerShared {
  ServerShared(const RpcOptions& rpc_options, const GrpcServerOptions& server_options,
               const Clock& clock_in)
      : options(server_options),
        clock(clock_in),
        gate(rpc_options, clock_in, counters),
        pending(std::make_shared<PendingInputs>(server_options.max_pending_bytes)) {}

  const GrpcServerOptions options;
  const Clock& clock;
  ServerCounters counters;
  ProbeRation probes;
  Gate gate;
  HostedSpan span;
  std::shared_ptr<PendingInputs> pending;
};

std::unique_ptr<grpc::Service> make_member_service(ServerShared& shared,
                                                   swarm::MemberHandler& members);
std::unique_ptr<grpc::Service> make_span_service(ServerShared& shared);

}  // namespace meadow::rpc
