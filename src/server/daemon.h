// A server as a library: chooses and loads a span, hosts it, tells the swarm, leaves.
// Thread rule: start() and leave() from one thread that is no gRPC thread; the rest from any. Owns
// the executor, its worker thread, and one thread that beats and tells the load; borrows
// membership, port, push and connector, which must outlive it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "engine/span_executor.h"
#include "format/model_file.h"
#include "rpc/grpc_server.h"
#include "server/engine_compute.h"
#include "server/load_meter.h"
#include "server/neighbours.h"
#include "swarm/membership.h"
#include "swarm/span_service.h"
#include "swarm/thread_worker.h"

namespace meadow::server {

struct DaemonOptions {
  std::optional<BlockRange> blocks;   // these; else
  std::optional<int32_t> num_blocks;  // so many, those served worst; else as many as fit
  int threads = 1;                    // that compute
  bool pin = false;                   // as engine::SpanOptions
  DType cache_type = DType::kF16;
  int64_t cache_tokens = 0;           // positions per block for all sessions together; 0: what fits
  uint64_t reserve_bytes = 0;         // of memory, left alone
  uint64_t memory_bytes = 0;          // to be used in all; 0: what is available
  std::string version;                // of the program: speeds are measured anew for another
  std::string speed_cache;            // file of measured speeds; empty: measured at every start
  bool measure_anew = false;          // although the file knows
  swarm::ProbePort* probe = nullptr;  // measures the network between peers; null: not measured
  // As SpanServiceOptions::on_session_end: on any thread, must only note or print.
  std::function<void(const swarm::ServedSessionReport&)> on_session_end;
};

// What start() is at: "loading", "hashing", "measuring".
using Progress = std::function<void(const std::string& what, int64_t done, int64_t total)>;

class Daemon {
 public:
  // Returns once the span answers and is announced as online. Blocks: on the disk, and for the
  // swarm's news of who serves what where it has to choose. kInvalidArgument (blocks outside the
  // model), kResourceExhausted (does not fit), and the errors of loading.
  static Result<std::unique_ptr<Daemon>> start(std::shared_ptr<format::ModelFile> file,
                                               DaemonOptions options, swarm::Membership& membership,
                                               rpc::GrpcServer& port, swarm::PushPort& push,
                                               swarm::SpanConnector& connector, const Clock& clock,
                                               const CancelToken* cancel, const Progress& progress);
  ~Daemon();

  BlockRange blocks() const { return span_.blocks; }
  const swarm::ServedSpan& announced() const { return span_; }
  swarm::SpanServiceStats stats() const { return service_->stats(); }
  double memory_bytes_per_s() const { return memory_bytes_per_s_; }
  uint64_t weight_bytes_touched() const { return file_->weight_bytes_touched(); }

  // Announces leaving, takes no new session, lets those under way end until `drain` has passed, and
  // stops. Idempotent.
  void leave(Duration drain);

 private:
  Daemon(std::shared_ptr<format::ModelFile> file, swarm::Membership& membership,
         rpc::GrpcServer& port, const Clock& clock);
  Result<void> choose(const DaemonOptions& options, engine::SpanOptions& span,
                      const CancelToken* cancel);
  Result<void> hash_blocks(const CancelToken* cancel, const Progress& progress);
  Result<void> measure(const DaemonOptions& options, const CancelToken* cancel);
  void beat(std::stop_token stop);

  std::shared_ptr<format::ModelFile> file_;
  swarm::Membership& membership_;
  rpc::GrpcServer& port_;
  const Clock& clock_;
  swarm::ServedSpan span_;
  std::unique_ptr<engine::SpanExecutor> executor_;
  std::unique_ptr<EngineCompute> compute_;
  std::unique_ptr<swarm::SpanService> service_;
  std::unique_ptr<swarm::ThreadWorker> worker_;
  std::optional<LoadMeter> load_meter_;        // beater's
  std::optional<NetworkMeter> network_meter_;  // beater's
  double memory_bytes_per_s_ = 0;
  std::jthread beater_;
  bool left_ = false;
};

}  // namespace meadow::server
