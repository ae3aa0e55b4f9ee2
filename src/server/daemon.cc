#include "server/daemon.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/rng.h"
#include "kernels/attention.h"
#include "server/capacity.h"
#include "server/measure.h"
#include "server/self_check.h"
#include "swarm/placement.h"

namespace meadow::server {
namespace {

constexpr Duration kNews = 1500ms;     // to learn who serves what before choosing
constexpr Duration kLoadPeriod = 2s;   // between two updates of the announced load
constexpr Duration kGoodbye = 1500ms;  // for somebody to take the withdrawal
constexpr Duration kSelfCheck = 30s;   // one token through the span, cold and busy

// Blocks until `done` or the deadline; polls, since a cancel token cannot notify.
template <class Done>
void wait_for(const Clock& clock, Duration limit, const CancelToken* cancel, Done done) {
  const Deadline deadline = Deadline::after(clock, limit);
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  while (!done() && !deadline.passed(clock.now()) && !(cancel && cancel->cancelled()))
    never.wait_for(lock, 20ms);
}

Result<void> check_cancel(const CancelToken* cancel) {
  if (cancel && cancel->cancelled()) return fail(Code::kCancelled, "starting was interrupted");
  return {};
}

// Throughputs of those who serve or are about to.
std::vector<swarm::Throughput> others(const swarm::Membership& membership) {
  std::vector<swarm::Throughput> out;
  for (const swarm::ServerInfo& server : membership.servers())
    if (server.lease.state != swarm::ServerState::kLeaving)
      out.push_back({server.lease.blocks, server.lease.speed.decode});
  return out;
}

}  // namespace

Daemon::Daemon(std::shared_ptr<format::ModelFile> file, swarm::Membership& membership,
               rpc::GrpcServer& port, const Clock& clock)
    : file_(std::move(file)), membership_(membership), port_(port), clock_(clock) {}

Daemon::~Daemon() { leave(Duration::zero()); }

Result<void> Daemon::choose(const DaemonOptions& options, engine::SpanOptions& span,
                            const CancelToken* cancel) {
  const int32_t n_blocks = span_.n_blocks;
  MEADOW_TRY(const auto cost, engine::block_cost(*file_, options.cache_type));
  MEADOW_TRY(const auto h, model::hyperparameters(*file_));
  const uint64_t available = options.memory_bytes ? options.memory_bytes : available_memory_bytes();
  const uint64_t usable = available > options.reserve_bytes ? available - options.reserve_bytes : 0;
  // Without one whole context a server is of no use to anybody.
  const int64_t least = std::min<int64_t>(h.n_ctx, 2048);

  int32_t count = 0;
  if (options.blocks) {
    if (options.blocks->empty() || options.blocks->first < 0 || options.blocks->last > n_blocks)
      return fail(Code::kInvalidArgument, "blocks {}:{} are not inside the model, which has 0:{}",
                  options.blocks->first, options.blocks->last, n_blocks);
    count = options.blocks->size();
  } else if (options.num_blocks) {
    if (*options.num_blocks < 1 || *options.num_blocks > n_blocks)
      return fail(Code::kInvalidArgument, "{} blocks: expected 1 to {}, the model has no more",
                  *options.num_blocks, n_blocks);
    count = *options.num_blocks;
  } else {
    MEADOW_TRY(const Capacity capacity, fit(usable, cost, n_blocks, least));
    count = capacity.blocks;
  }
  span.cache_tokens = options.cache_tokens;
  if (span.cache_tokens == 0) {
    MEADOW_TRY(const Capacity capacity, fit_cache(usable, cost, count, least));
    span.cache_tokens = capacity.cache_tokens;
  }
  if (options.blocks) {
    span_.blocks = *options.blocks;
  } else {
    if (count < n_blocks) {
      wait_for(clock_, kNews, cancel, [] { return false; });
      MEADOW_TRY_VOID(check_cancel(cancel));
    }
    span_.blocks =
        swarm::choose_blocks(swarm::block_throughputs(n_blocks, others(membership_)), count);
  }
  span.blocks = span_.blocks;
  return {};
}

Result<void> Daemon::hash_blocks(const CancelToken* cancel, const Progress& progress) {
  for (int32_t block = span_.blocks.first; block < span_.blocks.last; block++) {
    MEADOW_TRY_VOID(check_cancel(cancel));
    MEADOW_TRY(const Digest digest, file_->block_hash(block));
    span_.block_hashes.push_back(swarm::block_hash_of(digest));
    if (progress) progress("hashing", block + 1 - span_.blocks.first, span_.blocks.size());
  }
  return {};
}

// Speeds of this machine: those of an earlier start, or measured now.
Result<void> Daemon::measure(const DaemonOptions& options, const CancelToken* cancel) {
  MEADOW_TRY(const std::string key,
             speed_key(*file_, options.threads, options.pin, options.cache_type, options.version));
  std::optional<Speeds> speeds;
  if (!options.speed_cache.empty() && !options.measure_anew)
    speeds = cached_speeds(options.speed_cache, key);
  if (!speeds) {
    MEADOW_TRY(speeds, measure_speeds(*executor_, options.threads, clock_, cancel));
    // Without the file the next start takes a second longer, and that is all.
    if (!options.speed_cache.empty()) (void)cache_speeds(options.speed_cache, key, *speeds);
  }
  span_.load.speed = speeds->speed;
  memory_bytes_per_s_ = speeds->memory_bytes_per_s;
  return {};
}

Result<std::unique_ptr<Daemon>> Daemon::start(std::shared_ptr<format::ModelFile> file,
                                              DaemonOptions options, swarm::Membership& membership,
                                              rpc::GrpcServer& port, swarm::PushPort& push,
                                              swarm::SpanConnector& connector, const Clock& clock,
                                              const CancelToken* cancel, const Progress& progress) {
  MEADOW_TRY(const auto h, model::hyperparameters(*file));
  std::unique_ptr<Daemon> daemon(new Daemon(file, membership, port, clock));
  daemon->span_.n_blocks = h.n_blocks;
  daemon->span_.pinned = options.blocks.has_value();
  for (const auto codec : {swarm::Codec::kF32, swarm::Codec::kF16, swarm::Codec::kQ8})
    daemon->span_.codecs |= static_cast<uint8_t>(1u << static_cast<int>(codec));
  engine::SpanOptions span;
  span.cache_type = options.cache_type;
  span.threads = options.threads;
  span.pin = options.pin;
  MEADOW_TRY_VOID(daemon->choose(options, span, cancel));
  MEADOW_TRY_VOID(daemon->hash_blocks(cancel, progress));
  // Others who choose now should see that these are taken.
  MEADOW_TRY_VOID(membership.announce(daemon->span_, swarm::ServerState::kJoining));
  MEADOW_TRY(daemon->executor_, engine::SpanExecutor::load(file, span));
  MEADOW_TRY_VOID(check_cancel(cancel));
  MEADOW_TRY_VOID(daemon->measure(options, cancel));

  daemon->compute_ = std::make_unique<EngineCompute>(*daemon->executor_);
  daemon->worker_ = std::make_unique<swarm::ThreadWorker>();
  swarm::SpanServiceOptions service;
  service.blocks = span.blocks;
  service.n_embd = h.n_embd;
  service.max_context = std::min(h.n_ctx, span.cache_tokens);
  service.on_session_end = options.on_session_end;
  MEADOW_TRY(service.fingerprint, file->fingerprint());
  service.numerics = kernels::numerics_id(options.cache_type);
  daemon->service_ = std::make_unique<swarm::SpanService>(service, *daemon->compute_,
                                                          *daemon->worker_, push, clock);
  daemon->load_meter_.emplace(daemon->span_.load.speed);
  if (options.probe != nullptr)
    daemon->network_meter_.emplace(*options.probe, clock, Rng(random_seed()));
  daemon->beater_ =
      std::jthread([raw = daemon.get()](std::stop_token stop) { raw->beat(std::move(stop)); });
  daemon->span_.load.free_cache_tokens = daemon->compute_->free_cache_tokens();
  port.host(daemon->service_.get(), daemon->worker_.get());
  swarm::OpenRequest open;
  open.blocks = span.blocks;
  open.fingerprint = service.fingerprint;
  open.numerics = service.numerics;
  MEADOW_TRY_VOID(check_answers(connector, {port.id(), own_address(port.address())}, open, h.n_embd,
                                kSelfCheck, clock, cancel));
  MEADOW_TRY_VOID(membership.announce(daemon->span_, swarm::ServerState::kOnline));
  return daemon;
}

void Daemon::beat(std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  TimePoint told = clock_.now();
  while (!stop.stop_requested()) {
    wake.wait_for(lock, stop, swarm::kBeatPeriod, [] { return false; });
    service_->tick();
    load_meter_->sample(service_->stats());
    if (clock_.now() - told < kLoadPeriod) continue;
    told = clock_.now();
    const std::vector<swarm::ServerInfo> servers = membership_.servers();
    if (network_meter_) network_meter_->tick(servers, port_.id());
    swarm::Load load;
    load.free_cache_tokens = compute_->free_cache_tokens();
    load.sessions = static_cast<uint32_t>(service_->stats().sessions);
    load.queued_tokens = load_meter_->queued_tokens();
    load.speed = load_meter_->speed();
    load.network_bytes_per_s = network_meter_ ? network_meter_->bytes_per_s() : 0;
    load.links = likely_next(servers, port_.id(), span_.blocks);
    membership_.update_load(load);
  }
}

void Daemon::leave(Duration drain) {
  if (left_) return;
  left_ = true;
  membership_.leave();
  if (!service_) return;
  service_->drain();
  if (drain > Duration::zero()) {
    wait_for(clock_, kGoodbye, nullptr, [&] { return membership_.announced_to() > 0; });
    wait_for(clock_, drain, nullptr, [&] { return service_->stats().sessions == 0; });
  }
  port_.host(nullptr, nullptr);
  port_.shutdown(200ms);
  beater_.request_stop();
  if (beater_.joinable()) beater_.join();
  worker_->stop();
}

}  // namespace meadow::server
