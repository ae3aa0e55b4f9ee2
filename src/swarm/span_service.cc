#include "swarm/span_service.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "swarm/hidden_codec.h"
#include "swarm/kept_outputs.h"

namespace meadow::swarm {

namespace {

constexpr size_t kMaxQueuedSteps = 16;  // per session; a client replays with a smaller window

struct Step {
  uint64_t step = 0;
  HiddenStates input;
  bool push = true;
  int64_t outputs_from = 0;
  TimePoint arrived;
};

// An output that waits for the push before it to be answered. Its copy goes to the client with it:
// a copy says that the next server has been sent the same.
struct PendingPush {
  Step step;  // without its input
  HiddenStates output;
  uint32_t compute_us = 0, wait_us = 0;
};

struct ServedSession {
  uint64_t stream = 0;
  OpenRequest open;  // epoch, previous and next are the present ones
  std::shared_ptr<ClientSink> sink;
  CancelToken cancel;

  uint64_t last_step = 0;  // newest step accepted
  Step last;               // it, without its input once computed
  int64_t queued_end = 0;  // where the cache will end when the queue is done
  int64_t position = 0;    // where it ends now
  bool opening = true;
  std::deque<Step> queue;            // the front is being computed
  std::optional<PushRequest> early;  // pushed in an epoch that the client has not told us yet
  PeerId early_from;
  KeptOutputs kept;
  std::deque<PendingPush> to_push;  // in this epoch, behind the one under way
  bool pushing = false;
  ServedSessionReport report;
  TimePoint opened_at;

  ServedSession(int64_t bytes_per_position, int64_t max_kept)
      : kept(bytes_per_position, max_kept) {}
};
using SessionPtr = std::shared_ptr<ServedSession>;

uint32_t micros(Duration d) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(d).count());
}

}  // namespace

class SpanService::Impl : public std::enable_shared_from_this<SpanService::Impl> {
 public:
  Impl(SpanServiceOptions options, SpanCompute& compute, Worker& worker, PushPort& push,
       const Clock& clock)
      : options_(std::move(options)),
        compute_(compute),
        worker_(worker),
        push_(push),
        clock_(clock) {}

  uint64_t open(const PeerId& client, OpenRequest request, std::shared_ptr<ClientSink> sink);
  void receive(uint64_t stream, ClientMessage message);
  void closed(uint64_t stream);
  Result<void> push(const PeerId& from, PushRequest request);
  void tick();
  void drain() {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  SpanServiceStats stats() const {
    std::lock_guard lock(mutex_);
    SpanServiceStats out = stats_;
    out.sessions = static_cast<int64_t>(by_stream_.size());
    for (const auto& [stream, session] : by_stream_)
      for (const Step& step : session->queue) out.queued_tokens += step.input.count;
    return out;
  }

 private:
  // All below: mutex_ held, unless they say otherwise.
  Result<void> admit(const OpenRequest& request) const;
  Result<void> accept(const SessionPtr& session, Step step);
  void emit(const SessionPtr& session, const Step& step, const HiddenStates& output,
            uint32_t compute_us, uint32_t wait_us);
  void send_copy(ServedSession& session, const Step& step, const HiddenStates& output, bool all,
                 uint32_t compute_us, uint32_t wait_us);
  void repeat(const SessionPtr& session, const Step& step);
  void on_step(const SessionPtr& session, StepRequest request);
  void on_route(const SessionPtr& session, RouteUpdate update);
  void on_resend(ServedSession& session, ResendRequest request);
  void push_next(const SessionPtr& session);
  // A slow link is no dead server. Twice: the copy to the client shares it.
  Duration push_limit(const HiddenStates& output) const {
    return options_.push_timeout +
           from_seconds(2 * static_cast<double>(output.bytes.size()) / kLeastBytesPerS);
  }
  void give_up_pushes(ServedSession& session);
  void pushed(uint64_t stream, uint32_t epoch, uint64_t step, Result<void> result);  // locks
  void drop(const SessionPtr& session);
  void refuse(ServedSession& session, uint64_t step, Error error);
  void close_with(const SessionPtr& session, Error error);
  // On the worker, without the lock:
  void compute_open(const SessionPtr& session);
  void compute_step(const SessionPtr& session);

  const SpanServiceOptions options_;
  SpanCompute& compute_;
  Worker& worker_;
  PushPort& push_;
  const Clock& clock_;

  mutable std::mutex mutex_;
  bool draining_ = false;
  uint64_t next_stream_ = 1;
  std::map<uint64_t, SessionPtr> by_stream_;
  std::unordered_map<SessionId, SessionPtr> by_id_;
  SpanServiceStats stats_;
};

// ---- opening and closing -----------------------------------------------------------------------

Result<void> SpanService::Impl::admit(const OpenRequest& r) const {
  if (draining_) return fail(Code::kUnavailable, "this server is leaving the swarm");
  if (r.fingerprint != options_.fingerprint)
    return fail(Code::kFailedPrecondition,
                "model fingerprint differs: this server has {}…, the client {}…; use the same file",
                hex(options_.fingerprint, 8), hex(r.fingerprint, 8));
  if (r.numerics != options_.numerics)
    return fail(Code::kFailedPrecondition,
                "numerics differ: this server computes by version {}, the client by {}",
                options_.numerics, r.numerics);
  if (r.codec != Codec::kF32 && r.codec != Codec::kF16 && r.codec != Codec::kQ8)
    return fail(Code::kUnsupported, "unknown codec {}; supported: f32, f16, q8",
                static_cast<int>(r.codec));
  if (r.blocks.empty() || !options_.blocks.contains(r.blocks))
    return fail(Code::kNotFound, "blocks {}:{} asked for, {}:{} are held here", r.blocks.first,
                r.blocks.last, options_.blocks.first, options_.blocks.last);
  if (r.max_tokens <= 0 || r.max_tokens > options_.max_context)
    return fail(Code::kInvalidArgument, "a session of {} tokens asked for, 1 to {} are possible",
                r.max_tokens, options_.max_context);
  if (r.session.is_zero() || by_id_.contains(r.session))
    return fail(Code::kInvalidArgument, "session id {} is in use or empty", hex(r.session));
  if (static_cast<int64_t>(by_stream_.size()) >= options_.max_sessions)
    return fail(Code::kResourceExhausted, "{} sessions are open here, which is the limit",
                by_stream_.size());
  return {};
}

uint64_t SpanService::Impl::open(const PeerId& client, OpenRequest request,
                                 std::shared_ptr<ClientSink> sink) {
  std::lock_guard lock(mutex_);
  const uint64_t stream = next_stream_++;
  if (auto ok = admit(request); !ok) {
    stats_.refused++;
    sink->close(std::move(ok).error());
    return stream;
  }
  auto session = std::make_shared<ServedSession>(bytes_per_position(options_.n_embd, request.codec),
                                                 options_.max_kept_outputs);
  session->stream = stream;
  session->open = std::move(request);
  session->sink = std::move(sink);
  session->report.client = client;
  session->report.blocks = session->open.blocks;
  session->opened_at = clock_.now();
  by_stream_[stream] = session;
  by_id_[session->open.session] = session;
  stats_.sessions_total++;
  worker_.post([self = shared_from_this(), session] { self->compute_open(session); });
  return stream;
}

void SpanService::Impl::compute_open(const SessionPtr& session) {
  if (session->cancel.cancelled()) return;
  auto opened =
      compute_.open(session->open.session, session->open.blocks, session->open.max_tokens);
  std::lock_guard lock(mutex_);
  if (!opened) return close_with(session, std::move(opened).error());
  session->opening = false;
  if (!session->cancel.cancelled()) session->sink->send(Opened{});
}

// The worker runs in order, so the cache is freed after whatever it is computing now.
void SpanService::Impl::drop(const SessionPtr& session) {
  session->cancel.cancel();
  session->report.lifetime = clock_.now() - session->opened_at;
  if (options_.on_session_end) options_.on_session_end(session->report);
  by_stream_.erase(session->stream);
  by_id_.erase(session->open.session);
  worker_.post(
      [self = shared_from_this(), id = session->open.session] { self->compute_.close(id); });
}

void SpanService::Impl::close_with(const SessionPtr& session, Error error) {
  if (!by_stream_.contains(session->stream)) return;
  stats_.refused++;
  session->sink->close(std::move(error));
  drop(session);
}

void SpanService::Impl::closed(uint64_t stream) {
  std::lock_guard lock(mutex_);
  if (const auto it = by_stream_.find(stream); it != by_stream_.end()) {
    const SessionPtr session = it->second;
    drop(session);
  }
}

// ---- messages ----------------------------------------------------------------------------------

void SpanService::Impl::receive(uint64_t stream, ClientMessage message) {
  std::lock_guard lock(mutex_);
  const auto it = by_stream_.find(stream);
  if (it == by_stream_.end()) return;  // refused or closed already; the rest of the stream is void
  const SessionPtr session = it->second;
  if (auto* step = std::get_if<StepRequest>(&message)) return on_step(session, std::move(*step));
  if (auto* route = std::get_if<RouteUpdate>(&message)) return on_route(session, *route);
  if (auto* ack = std::get_if<OutputAck>(&message)) return session->kept.acknowledge(ack->position);
  if (auto* resend = std::get_if<ResendRequest>(&message)) return on_resend(*session, *resend);
  close_with(session, {Code::kInvalidArgument, "a stream opens one session, not two"});
}

void SpanService::Impl::on_step(const SessionPtr& session, StepRequest request) {
  if (request.epoch != session->open.epoch) return;  // overtaken by a failover
  Step step{request.step, std::move(request.input), request.push, request.outputs_from,
            clock_.now()};
  if (auto ok = accept(session, std::move(step)); !ok)
    refuse(*session, request.step, std::move(ok).error());
}

Result<void> SpanService::Impl::push(const PeerId& from, PushRequest request) {
  std::lock_guard lock(mutex_);
  const auto it = by_id_.find(request.session);
  if (it == by_id_.end()) {
    stats_.refused++;
    return fail(Code::kNotFound, "no session {} here", hex(request.session));
  }
  const SessionPtr session = it->second;
  const OpenRequest& open = session->open;
  if (request.epoch > open.epoch) {
    // The client's word of this epoch may be on its way; one push waits for it.
    session->early = std::move(request);
    session->early_from = from;
    return {};
  }
  if (open.previous.is_zero() || from != open.previous) {
    stats_.refused++;
    return fail(Code::kPermissionDenied, "peer {} is not the one that may push to session {}",
                short_id(from), hex(request.session, 4));
  }
  if (request.epoch < open.epoch)
    return fail(Code::kFailedPrecondition, "epoch {} is over, {} is current", request.epoch,
                open.epoch);
  return accept(session,
                {request.step, std::move(request.input), true, request.outputs_from, clock_.now()});
}

Result<void> SpanService::Impl::accept(const SessionPtr& session, Step step) {
  ServedSession& s = *session;
  MEADOW_TRY_VOID(check(step.input, kMaxStepBytes));
  MEADOW_TRY_VOID(check_width(step.input, options_.n_embd, s.open.codec));
  if (step.step <= s.last_step) {
    stats_.duplicates++;
    if (step.step == s.last_step && s.queue.empty()) repeat(session, step);
    return {};
  }
  if (step.input.first_position > s.queued_end)
    return fail(Code::kFailedPrecondition, "step at position {} asked for, the cache ends at {}",
                step.input.first_position, s.queued_end);
  if (step.input.end() > s.open.max_tokens)
    return fail(Code::kInvalidArgument, "position {} asked for, the session is for {} tokens",
                step.input.end(), s.open.max_tokens);
  if (s.queue.size() >= kMaxQueuedSteps)
    return fail(Code::kResourceExhausted, "{} steps of this session wait already", s.queue.size());
  stats_.hidden_bytes_in += step.input.bytes.size();
  s.report.hidden_bytes_in += step.input.bytes.size();
  s.last_step = step.step;
  s.queued_end = step.input.end();
  s.queue.push_back(std::move(step));
  worker_.post([self = shared_from_this(), session] { self->compute_step(session); });
  return {};
}

// The last step came again, after a failover: its outputs go out once more, by the present route.
void SpanService::Impl::repeat(const SessionPtr& session, const Step& step) {
  const auto output = session->kept.get(session->last.input.first_position, session->position);
  if (!output || step.input.first_position != session->last.input.first_position ||
      step.input.count != session->last.input.count)
    return refuse(*session, step.step,
                  {Code::kFailedPrecondition, "the outputs of this step are no longer kept"});
  emit(session, step, *output, 0, 0);
}

void SpanService::Impl::on_route(const SessionPtr& session, RouteUpdate update) {
  if (update.epoch <= session->open.epoch) return;
  session->open.epoch = update.epoch;
  session->open.previous = update.previous;
  session->open.next = update.next;
  give_up_pushes(*session);  // of the old epoch: nobody would take them
  if (!session->early || session->early->epoch > update.epoch) return;
  PushRequest early = std::move(*session->early);
  session->early.reset();
  if (early.epoch != update.epoch || session->early_from != update.previous) return;
  if (auto ok = accept(
          session, {early.step, std::move(early.input), true, early.outputs_from, clock_.now()});
      !ok)
    refuse(*session, early.step, std::move(ok).error());
}

void SpanService::Impl::on_resend(ServedSession& s, ResendRequest request) {
  // Outputs of a step in work come by themselves when it is done.
  if (request.from >= s.position) return;
  auto output = s.kept.get(request.from, s.position);
  if (!output)
    return refuse(s, 0,
                  {Code::kFailedPrecondition,
                   fmt::format("outputs from position {} are no longer kept", request.from)});
  stats_.hidden_bytes_out += output->bytes.size();
  s.report.hidden_bytes_out += output->bytes.size();
  s.sink->send(StepOutput{s.open.epoch, s.last_step, std::move(*output), s.position, 0, 0});
}

void SpanService::Impl::refuse(ServedSession& session, uint64_t step, Error error) {
  stats_.refused++;
  session.sink->send(StepRefused{session.open.epoch, step, std::move(error)});
}

// ---- computing ---------------------------------------------------------------------------------

void SpanService::Impl::compute_step(const SessionPtr& session) {
  Step step;
  TimePoint start;
  {
    std::lock_guard lock(mutex_);
    if (session->cancel.cancelled() || session->queue.empty()) return;
    step = session->queue.front();
    start = clock_.now();
    session->kept.truncate(step.input.first_position);
    if (!session->open.next) session->kept.acknowledge(step.input.first_position);
  }
  Result<Bytes> bytes = [&]() -> Result<Bytes> {
    MEADOW_TRY(auto hidden, decode(step.input.bytes, session->open.codec, options_.n_embd));
    MEADOW_TRY(auto output, compute_.forward(session->open.session, step.input.first_position,
                                             hidden, session->cancel));
    return encode(output, session->open.codec, options_.n_embd);
  }();

  std::lock_guard lock(mutex_);
  ServedSession& s = *session;
  if (s.cancel.cancelled()) return;
  s.queue.pop_front();
  const uint32_t compute_us = micros(clock_.now() - start), wait_us = micros(start - step.arrived);
  stats_.compute_us += compute_us;
  stats_.wait_us += wait_us;
  stats_.steps++;
  s.report.compute_us += compute_us;
  s.report.wait_us += wait_us;
  s.report.steps++;
  if (!bytes) {
    // Steps behind this one would leave a hole: the session goes back to before it.
    s.position = s.queued_end = step.input.first_position;
    s.queue.clear();
    return refuse(s, step.step, std::move(bytes).error());
  }
  s.position = step.input.end();
  stats_.tokens += step.input.count;
  if (step.input.count == 1 || step.input.count >= kPromptStep) {
    WorkDone& work = step.input.count == 1 ? stats_.decoded : stats_.prompted;
    work.block_tokens += static_cast<uint64_t>(step.input.count * s.open.blocks.size());
    work.compute_us += compute_us;
  }
  s.report.tokens += step.input.count;
  // A step that is not passed on in a chain of several spans is one that a failover repeats.
  if (!step.push && (s.open.next || !s.open.previous.is_zero())) {
    stats_.replayed_tokens += step.input.count;
    s.report.replayed_tokens += step.input.count;
  }
  const HiddenStates output{step.input.first_position, step.input.count, std::move(*bytes)};
  s.kept.append(output);
  s.last = step;
  s.last.input.bytes.clear();
  emit(session, step, output, compute_us, wait_us);
}

void SpanService::Impl::emit(const SessionPtr& session, const Step& step,
                             const HiddenStates& output, uint32_t compute_us, uint32_t wait_us) {
  ServedSession& s = *session;
  if (!step.push || !s.open.next) return send_copy(s, step, output, false, compute_us, wait_us);
  PendingPush pending{step, output, compute_us, wait_us};
  pending.step.input.bytes.clear();
  s.to_push.push_back(std::move(pending));
  if (!s.pushing) push_next(session);
}

// One push after another: two at once might overtake each other.
void SpanService::Impl::push_next(const SessionPtr& session) {
  ServedSession& s = *session;
  if (s.to_push.empty() || !s.open.next) return;
  const PendingPush pending = std::move(s.to_push.front());
  s.to_push.pop_front();
  s.pushing = true;
  stats_.pushes++;
  stats_.hidden_bytes_out += pending.output.bytes.size();
  s.report.hidden_bytes_out += pending.output.bytes.size();
  push_.push(s.open.next->server,
             PushRequest{s.open.next->session, s.open.epoch, pending.step.step, pending.output,
                         pending.step.outputs_from},
             Deadline::after(clock_, push_limit(pending.output)),
             [weak = weak_from_this(), stream = s.stream, epoch = s.open.epoch,
              number = pending.step.step](Result<void> result) {
               if (auto self = weak.lock()) self->pushed(stream, epoch, number, std::move(result));
             });
  send_copy(s, pending.step, pending.output, true, pending.compute_us, pending.wait_us);
}

// Outputs that will not be pushed: the client gets them all the same.
void SpanService::Impl::give_up_pushes(ServedSession& s) {
  s.pushing = false;
  for (const PendingPush& p : std::exchange(s.to_push, {}))
    send_copy(s, p.step, p.output, true, p.compute_us, p.wait_us);
}

void SpanService::Impl::send_copy(ServedSession& s, const Step& step, const HiddenStates& output,
                                  bool all, uint32_t compute_us, uint32_t wait_us) {
  StepOutput message{s.open.epoch, step.step, {}, s.position, compute_us, wait_us};
  const int64_t from = all ? output.first_position
                           : std::clamp(step.outputs_from, output.first_position, output.end());
  const int64_t skip =
      (from - output.first_position) * bytes_per_position(options_.n_embd, s.open.codec);
  message.output = {from, output.end() - from,
                    Bytes(output.bytes.begin() + skip, output.bytes.end())};
  stats_.hidden_bytes_out += message.output.bytes.size();
  s.report.hidden_bytes_out += message.output.bytes.size();
  s.sink->send(std::move(message));
}

void SpanService::Impl::pushed(uint64_t stream, uint32_t epoch, uint64_t step,
                               Result<void> result) {
  std::lock_guard lock(mutex_);
  if (!result) stats_.pushes_failed++;
  const auto it = by_stream_.find(stream);
  if (it == by_stream_.end() || it->second->open.epoch != epoch) return;
  ServedSession& s = *it->second;
  s.pushing = false;
  if (!result) s.sink->send(PushFailed{epoch, step, std::move(result).error()});
  push_next(it->second);
}

void SpanService::Impl::tick() {
  std::lock_guard lock(mutex_);
  for (const auto& [stream, session] : by_stream_)
    if (!session->queue.empty())
      session->sink->send(Beat{session->open.epoch, session->queue.front().step});
}

// ---- the public face ---------------------------------------------------------------------------

SpanService::SpanService(SpanServiceOptions options, SpanCompute& compute, Worker& worker,
                         PushPort& push, const Clock& clock)
    : impl_(std::make_shared<Impl>(std::move(options), compute, worker, push, clock)) {}
SpanService::~SpanService() = default;

uint64_t SpanService::open(const PeerId& client, OpenRequest request,
                           std::shared_ptr<ClientSink> sink) {
  return impl_->open(client, std::move(request), std::move(sink));
}
void SpanService::receive(uint64_t stream, ClientMessage message) {
  impl_->receive(stream, std::move(message));
}
void SpanService::closed(uint64_t stream) { impl_->closed(stream); }
Result<void> SpanService::push(const PeerId& from, PushRequest request) {
  return impl_->push(from, std::move(request));
}
void SpanService::tick() { impl_->tick(); }
void SpanService::drain() { impl_->drain(); }
SpanServiceStats SpanService::stats() const { return impl_->stats(); }

}  // namespace meadow::swarm
