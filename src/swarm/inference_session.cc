#include "swarm/inference_session.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "swarm/hidden_codec.h"
#include "swarm/session_chain.h"

namespace meadow::swarm {

namespace {
constexpr int64_t kChunkBytes = int64_t{1}
                                << 20;  // a step's input; long prompts take several steps
constexpr int64_t kReplayWindow = 4;    // chunks sent ahead of their acknowledgement
// Steps are numbered kStepStride apart. Replays before step n use numbers between n - 1 and n, so
// that to a newcomer step n is new, and to a server that did it already, a duplicate.
constexpr uint64_t kStepStride = uint64_t{1} << 20;
}  // namespace

class InferenceSession::Impl {
 public:
  Impl(SessionOptions options, SpanConnector& connector, Directory& directory, EventInbox& inbox,
       const Clock& clock, Rng& rng)
      : options_(std::move(options)),
        connector_(connector),
        directory_(directory),
        inbox_(inbox),
        clock_(clock),
        rng_(rng),
        bytes_per_position_(options_.n_embd * bytes_per_value(options_.codec)),
        chain_(bytes_per_position_, stats_) {
    MEADOW_CHECK(options_.n_blocks > 0 && options_.n_embd > 0);
  }

  Result<void> open(const CancelToken* cancel);
  Result<std::vector<float>> step(int64_t first, std::span<const float> hidden, int64_t from,
                                  const CancelToken* cancel);
  int64_t position() const { return position_; }
  Chain chain() const { return chain_.hops(); }
  const SessionStats& stats() {
    shown_ = stats_;
    for (const ChainSpan& s : chain_.spans) {
      if (!s.stream) continue;
      shown_.bytes_sent += s.stream->bytes_sent();
      shown_.bytes_received += s.stream->bytes_received();
    }
    return shown_;
  }

 private:
  int64_t chunk_positions() const {
    return std::max<int64_t>(1, kChunkBytes / bytes_per_position_);
  }

  Result<void> run_chunk(StepProgress& progress, int64_t from, const CancelToken* cancel);
  void drive(const StepProgress& progress, int64_t from);
  void send_step(ChainSpan& span, const StepProgress& progress, int64_t from);
  void relay(StepProgress& progress, int64_t from);
  Result<void> await(StepProgress& progress, TimePoint until, const CancelToken* cancel);
  void check_stall(const StepProgress& progress, TimePoint driven);

  Result<void> repair(int64_t need, StepProgress& progress, const CancelToken* cancel);
  Result<void> replace_failed(int64_t need, TimePoint give_up, StepProgress& progress,
                              const CancelToken* cancel);
  Result<Chain> find_replacements(TimePoint give_up, StepProgress& progress,
                                  const CancelToken* cancel);
  void lay_out(const Chain& chain);
  void announce_route();
  Result<void> await_opened(StepProgress& progress, const CancelToken* cancel);
  Result<void> feed(size_t index, int64_t need, StepProgress& progress, const CancelToken* cancel);
  Result<void> fill_journal(size_t index, int64_t need, StepProgress& progress,
                            const CancelToken* cancel);
  Result<void> pause(TimePoint until, StepProgress& progress, const CancelToken* cancel);
  void note_failures(int64_t position);
  std::optional<NextHop> next_of(size_t index) const;
  PeerId previous_of(size_t index) const;

  const SessionOptions options_;
  SpanConnector& connector_;
  Directory& directory_;
  EventInbox& inbox_;
  const Clock& clock_;
  Rng& rng_;
  const int64_t bytes_per_position_;

  SessionStats stats_, shown_;
  SessionChain chain_;
  int64_t position_ = 0;
  uint32_t epoch_ = 0;
  uint64_t last_step_ = 0;    // of the present or last step
  uint64_t last_replay_ = 0;  // replays get numbers between the previous step and the present one
  uint64_t next_stream_ = 1;
  TimePoint last_event_{};     // sign of life of the chain during the present step
  std::vector<PeerId> avoid_;  // failed during the present repair
};

// ---- one step ----------------------------------------------------------------------------------

Result<void> InferenceSession::Impl::open(const CancelToken* cancel) {
  StepProgress progress;
  return repair(0, progress, cancel);
}

Result<std::vector<float>> InferenceSession::Impl::step(int64_t first,
                                                        std::span<const float> hidden, int64_t from,
                                                        const CancelToken* cancel) {
  const int64_t n = static_cast<int64_t>(hidden.size()) / options_.n_embd;
  if (n <= 0 || n * options_.n_embd != static_cast<int64_t>(hidden.size()))
    return fail(Code::kInvalidArgument, "expected whole positions of {} values, got {} values",
                options_.n_embd, hidden.size());
  if (first < 0 || first > position_)
    return fail(Code::kInvalidArgument, "step at position {} asked for, the session is at {}",
                first, position_);
  if (first + n > options_.max_tokens)
    return fail(Code::kInvalidArgument, "position {} asked for, the session is for {} tokens",
                first + n, options_.max_tokens);
  if (from < first || from >= first + n)
    return fail(Code::kInvalidArgument, "outputs from position {} asked for in [{}, {})", from,
                first, first + n);
  MEADOW_TRY(const Bytes bytes, encode(hidden, options_.codec));
  if (first < position_) chain_.oldest_valid_step = last_step_ + 1;
  chain_.journal.truncate(first);
  for (ChainSpan& s : chain_.spans) {
    s.position = std::min(s.position, first);
    s.acknowledged = std::min(s.acknowledged, first);
  }
  const int64_t before = position_;
  position_ = first;

  std::vector<float> out;
  for (int64_t at = first; at < first + n; at += chunk_positions()) {
    last_step_ += kStepStride;
    last_replay_ = last_step_ - kStepStride;
    StepProgress progress{
        .step = last_step_, .first = at, .count = std::min(chunk_positions(), first + n - at)};
    HiddenStates input{at, progress.count, {}};
    const auto begin = bytes.begin() + (at - first) * bytes_per_position_;
    input.bytes.assign(begin, begin + progress.count * bytes_per_position_);
    MEADOW_CHECK(chain_.journal.append(0, input));
    const int64_t wanted = std::clamp(from, at, progress.end());
    auto done = run_chunk(progress, wanted, cancel);
    Result<std::vector<float>> values =
        done ? decode(progress.result->output.bytes, options_.codec)
             : Result<std::vector<float>>(fail(std::move(done).error()));
    if (values &&
        static_cast<int64_t>(values->size()) != (progress.end() - wanted) * options_.n_embd)
      values = fail(Code::kCorrupt, "the last server answered {} values, expected {}",
                    values->size(), (progress.end() - wanted) * options_.n_embd);
    if (!values) {
      position_ = std::min(before, at);
      chain_.oldest_valid_step = last_step_ + 1;
      chain_.journal.truncate(position_);
      return fail(std::move(values).error());
    }
    out.insert(out.end(), values->begin(), values->end());
    position_ = progress.end();
    chain_.acknowledge(clock_.now());
  }
  stats_.steps++;
  stats_.tokens += n;
  return out;
}

Result<void> InferenceSession::Impl::run_chunk(StepProgress& progress, int64_t from,
                                               const CancelToken* cancel) {
  const TimePoint began = clock_.now();
  TimePoint driven = began;
  // Whatever happened between two steps.
  while (auto event = inbox_.wait(began, nullptr)) chain_.apply(std::move(*event), began, progress);
  bool sent = false;
  while (!progress.result) {
    if (progress.own_mistake) return fail(std::move(*progress.own_mistake));
    if (chain_.spans.empty() || chain_.any_failed()) {
      // Chains that stand but never answer must not go on for ever.
      if (clock_.now() - began > options_.step_timeout + options_.give_up_after)
        return fail(Code::kDeadlineExceeded, "no answer within {:.0f} s in spite of replacements",
                    seconds(options_.step_timeout + options_.give_up_after));
      MEADOW_TRY_VOID(repair(progress.first, progress, cancel));
      sent = false;
      continue;
    }
    if (!sent) {
      drive(progress, from);
      driven = last_event_;
      sent = true;
    }
    const TimePoint stall = last_event_ + options_.stall_timeout;
    MEADOW_TRY_VOID(await(progress, std::min(stall, driven + options_.step_timeout), cancel));
    relay(progress, from);
    check_stall(progress, driven);
  }
  stats_.waiting += clock_.now() - began;
  return {};
}

// Sends the step to the first span whose output is not known; pushes carry it on from there.
void InferenceSession::Impl::drive(const StepProgress& progress, int64_t from) {
  const size_t at = chain_.frontier(progress);
  ChainSpan& span = chain_.spans[at];
  last_event_ = clock_.now();
  send_step(span, progress, from);
}

void InferenceSession::Impl::send_step(ChainSpan& span, const StepProgress& progress,
                                       int64_t from) {
  // Without pushes the client passes every output on, so it needs all of it.
  const bool last = &span == &chain_.spans.back();
  const int64_t wanted = last || options_.push ? from : progress.first;
  chain_.send(span,
              StepRequest{epoch_, progress.step,
                          chain_.journal.get(span.hop.blocks.first, progress.first, progress.count),
                          options_.push, wanted},
              clock_.now());
}

// Hops that the client does itself: after a failed push, or all of them with pushes off.
void InferenceSession::Impl::relay(StepProgress& progress, int64_t from) {
  if (!options_.push)
    for (const ChainSpan& s : chain_.spans)
      if (s.position >= progress.end()) progress.relay.push_back(s.number);
  std::vector<uint64_t> later;
  for (const uint64_t number : progress.relay) {
    const auto it = std::find_if(chain_.spans.begin(), chain_.spans.end(),
                                 [&](const ChainSpan& s) { return s.number == number; });
    if (it == chain_.spans.end() || it + 1 == chain_.spans.end()) continue;
    ChainSpan& next = *(it + 1);
    if (next.failure || next.position >= progress.end() || next.relayed_step == progress.step)
      continue;
    if (chain_.journal.length(next.hop.blocks.first) < progress.end()) {
      later.push_back(number);  // its copy is still on the way
      continue;
    }
    next.relayed_step = progress.step;
    stats_.relayed++;
    send_step(next, progress, from);
  }
  progress.relay = options_.push ? std::move(later) : std::vector<uint64_t>{};
}

// Waits for one event and applies it; nothing happens when `until` comes first.
Result<void> InferenceSession::Impl::await(StepProgress& progress, TimePoint until,
                                           const CancelToken* cancel) {
  if (cancel != nullptr && cancel->cancelled()) return fail(Code::kCancelled, "cancelled");
  if (auto event = inbox_.wait(until, cancel)) {
    last_event_ = clock_.now();
    chain_.apply(std::move(*event), last_event_, progress);
  }
  if (cancel != nullptr && cancel->cancelled()) return fail(Code::kCancelled, "cancelled");
  return {};
}

// A server at work beats; if nobody does, the span that owes its output is blamed.
void InferenceSession::Impl::check_stall(const StepProgress& progress, TimePoint driven) {
  if (progress.result || chain_.any_failed()) return;
  const TimePoint now = clock_.now();
  const bool silent = now >= last_event_ + options_.stall_timeout;
  const bool late = now >= driven + options_.step_timeout;
  if (!silent && !late) return;
  ChainSpan& span = chain_.spans[chain_.frontier(progress)];
  chain_.fail_span(
      span,
      {Code::kDeadlineExceeded,
       fmt::format(
           "server {} {}", short_id(span.hop.server.id),
           late ? fmt::format("gave no answer within {:.1f} s", seconds(options_.step_timeout))
                : fmt::format("was silent for {:.1f} s", seconds(options_.stall_timeout)))});
}

// ---- repair ------------------------------------------------------------------------------------

// Replaces every failed span (or makes the first chain) and feeds the newcomers `need` positions.
Result<void> InferenceSession::Impl::repair(int64_t need, StepProgress& progress,
                                            const CancelToken* cancel) {
  const TimePoint began = clock_.now(), give_up = began + options_.give_up_after;
  const size_t records = stats_.failovers.size();
  avoid_.clear();
  note_failures(need);
  Duration pause_time = 20ms;
  for (;;) {
    auto standing = replace_failed(need, give_up, progress, cancel);
    if (standing) break;
    const Error error = standing.error();
    if (error.code != Code::kUnavailable || progress.own_mistake) {
      if (progress.own_mistake) return fail(std::move(*progress.own_mistake));
      return fail(error);
    }
    note_failures(need);
    if (clock_.now() >= give_up) {
      const std::string reason =
          stats_.failovers.size() > records ? "; last: " + stats_.failovers.back().reason : "";
      return fail(Code::kUnavailable, "{}{}", error.message, reason);
    }
    MEADOW_TRY_VOID(pause(std::min(give_up, clock_.now() + pause_time), progress, cancel));
    pause_time = std::min<Duration>(2 * pause_time, 1s);
  }
  for (size_t i = records; i < stats_.failovers.size(); i++)
    stats_.failovers[i].recovery = clock_.now() - began;
  std::vector<int32_t> borders;
  for (const ChainSpan& s : chain_.spans) {
    borders.push_back(s.hop.blocks.first);
    directory_.report_success(s.hop.server.id);
  }
  chain_.journal.keep_only(borders);
  return {};
}

// One attempt. kUnavailable: a span failed on the way (it is marked), or nobody is there.
Result<void> InferenceSession::Impl::replace_failed(int64_t need, TimePoint give_up,
                                                    StepProgress& progress,
                                                    const CancelToken* cancel) {
  MEADOW_TRY(const Chain chain, find_replacements(give_up, progress, cancel));
  lay_out(chain);
  MEADOW_TRY_VOID(await_opened(progress, cancel));
  for (size_t i = 0; i < chain_.spans.size(); i++)
    if (!chain_.spans[i].fed) MEADOW_TRY_VOID(feed(i, need, progress, cancel));
  announce_route();
  return {};
}

// Tells every server who is beside it now. Only when the newcomers are fed: a push that comes
// before would find a hole.
void InferenceSession::Impl::announce_route() {
  const TimePoint now = clock_.now();
  for (size_t i = 0; i < chain_.spans.size(); i++) {
    ChainSpan& span = chain_.spans[i];
    if (span.epoch == epoch_) continue;
    span.epoch = epoch_;
    chain_.send(span, RouteUpdate{epoch_, previous_of(i), next_of(i)}, now);
  }
}

// The whole chain as it should be: healthy spans as they are, new hops for the rest. Waits for
// servers to appear until `give_up`.
Result<Chain> InferenceSession::Impl::find_replacements(TimePoint give_up, StepProgress& progress,
                                                        const CancelToken* cancel) {
  for (;;) {
    Chain chain;
    std::optional<Error> missing;
    const std::vector<ServerInfo> servers = directory_.online();
    BlockRange gap{0, 0};  // blocks without a healthy span, growing
    const auto fill = [&](int32_t until) {
      gap.last = until;
      if (gap.empty() || missing) return;
      auto route = find_route(servers, {gap, options_.max_tokens, avoid_});
      if (!route && !avoid_.empty())  // better a server that failed once than none
        route = find_route(servers, {gap, options_.max_tokens, {}});
      if (route) {
        chain.insert(chain.end(), route->chain.begin(), route->chain.end());
      } else {
        missing = std::move(route).error();
      }
    };
    for (const ChainSpan& s : chain_.spans) {
      if (s.failure) continue;
      fill(s.hop.blocks.first);
      chain.push_back(s.hop);
      gap.first = s.hop.blocks.last;
    }
    fill(options_.n_blocks);
    if (!missing) return chain;
    if (clock_.now() >= give_up)
      return fail(Code::kUnavailable, "{}; waited {:.0f} s", missing->message,
                  seconds(options_.give_up_after));
    avoid_.clear();
    MEADOW_TRY_VOID(pause(std::min(give_up, clock_.now() + Duration(250ms)), progress, cancel));
  }
}

// Makes chain_ match `chain`, raises the epoch, opens the newcomers.
void InferenceSession::Impl::lay_out(const Chain& chain) {
  epoch_++;
  std::vector<ChainSpan> spans;
  for (const Hop& hop : chain) {
    const auto it = std::find_if(chain_.spans.begin(), chain_.spans.end(), [&](const ChainSpan& s) {
      return !s.failure && s.stream && s.hop == hop;
    });
    if (it != chain_.spans.end()) {
      spans.push_back(std::move(*it));
      it->stream.reset();
    } else {
      ChainSpan span{.hop = hop};
      rng_.fill(span.session.bytes);
      spans.push_back(std::move(span));
    }
  }
  for (ChainSpan& s : chain_.spans) chain_.count_and_drop(s);
  chain_.spans = std::move(spans);
  const TimePoint now = clock_.now();
  for (size_t i = 0; i < chain_.spans.size(); i++) {
    ChainSpan& span = chain_.spans[i];
    if (span.stream) continue;
    span.number = next_stream_++;
    span.epoch = epoch_;
    span.sent = span.heard = now;
    span.stream = connector_.connect(
        span.hop.server,
        OpenRequest{span.session, epoch_, span.hop.blocks, options_.max_tokens, options_.codec,
                    options_.fingerprint, options_.numerics, previous_of(i), next_of(i)},
        inbox_, span.number);
  }
}

Result<void> InferenceSession::Impl::await_opened(StepProgress& progress,
                                                  const CancelToken* cancel) {
  const TimePoint until = clock_.now() + options_.open_timeout;
  for (;;) {
    if (progress.own_mistake) return fail(*progress.own_mistake);
    if (chain_.any_failed()) return fail(Code::kUnavailable, "a server failed while joining");
    const auto waiting = std::find_if(chain_.spans.begin(), chain_.spans.end(),
                                      [](const ChainSpan& s) { return !s.opened; });
    if (waiting == chain_.spans.end()) return {};
    if (clock_.now() >= until) {
      chain_.fail_span(*waiting, {Code::kDeadlineExceeded, "did not accept the session in time"});
      continue;
    }
    MEADOW_TRY_VOID(await(progress, until, cancel));
  }
}

// Replays the journal to span `index` until its cache ends at `need`.
Result<void> InferenceSession::Impl::feed(size_t index, int64_t need, StepProgress& progress,
                                          const CancelToken* cancel) {
  if (chain_.spans[index].position < need)
    MEADOW_TRY_VOID(fill_journal(index, need, progress, cancel));
  ChainSpan& span = chain_.spans[index];
  const int32_t border = span.hop.blocks.first, next_border = span.hop.blocks.last;
  const bool last = index + 1 == chain_.spans.size();
  int64_t sent = span.position;
  if (sent < need) {
    stats_.replays++;
    stats_.replayed_tokens += need - sent;
    if (!stats_.failovers.empty()) stats_.failovers.back().replayed_tokens += need - sent;
  }
  last_event_ = clock_.now();
  while (span.position < need) {
    if (progress.own_mistake) return fail(*progress.own_mistake);
    if (chain_.any_failed()) return fail(Code::kUnavailable, "a server failed during a replay");
    if (sent < need && sent - span.position < kReplayWindow * chunk_positions()) {
      const int64_t count = std::min(chunk_positions(), need - sent);
      const int64_t wanted = last ? need : chain_.journal.length(next_border);
      chain_.send(span,
                  StepRequest{span.epoch, ++last_replay_, chain_.journal.get(border, sent, count),
                              false, std::clamp(wanted, sent, sent + count)},
                  clock_.now());
      sent += count;
      continue;
    }
    const TimePoint stall = last_event_ + options_.stall_timeout;
    MEADOW_TRY_VOID(await(progress, stall, cancel));
    if (clock_.now() >= last_event_ + options_.stall_timeout)
      chain_.fail_span(span, {Code::kDeadlineExceeded, "was silent during a replay"});
  }
  span.fed = true;
  return {};
}

// The inputs that a newcomer needs may not have reached the client: a copy still on its way from a
// server that lives is asked for again, one from a newcomer comes with its replay.
Result<void> InferenceSession::Impl::fill_journal(size_t index, int64_t need,
                                                  StepProgress& progress,
                                                  const CancelToken* cancel) {
  const int32_t border = chain_.spans[index].hop.blocks.first;
  if (chain_.journal.length(border) >= need) return {};
  MEADOW_CHECK(index > 0);
  ChainSpan& source = chain_.spans[index - 1];
  stats_.resends++;
  chain_.send(source, ResendRequest{chain_.journal.length(border)}, clock_.now());
  const TimePoint until = clock_.now() + options_.stall_timeout;
  while (chain_.journal.length(border) < need) {
    if (chain_.any_failed()) return fail(Code::kUnavailable, "a server failed during a resend");
    if (clock_.now() >= until) {
      chain_.fail_span(source, {Code::kDeadlineExceeded, "did not resend its outputs in time"});
      continue;
    }
    MEADOW_TRY_VOID(await(progress, until, cancel));
  }
  return {};
}

Result<void> InferenceSession::Impl::pause(TimePoint until, StepProgress& progress,
                                           const CancelToken* cancel) {
  while (clock_.now() < until) MEADOW_TRY_VOID(await(progress, until, cancel));
  return {};
}

// Tells the directory of the failed spans, once each, and writes them down.
void InferenceSession::Impl::note_failures(int64_t position) {
  FailoverRecord record{.position = position};
  const TimePoint now = clock_.now();
  for (ChainSpan& s : chain_.spans) {
    if (!s.failure || !s.stream) continue;
    if (s.failure->code == Code::kResourceExhausted) {
      directory_.report_full(s.hop.server.id);
    } else if (!s.blameless) {
      directory_.report_failure(s.hop.server.id, *s.failure);
    }
    if (!s.blameless || s.failure->code == Code::kResourceExhausted)
      avoid_.push_back(s.hop.server.id);
    record.failed.push_back(s.hop.server.id);
    if (record.reason.empty()) record.reason = s.failure->text();
    record.detection = std::max(record.detection, now - std::max(s.sent, s.heard));
    chain_.count_and_drop(s);
  }
  if (!record.failed.empty()) stats_.failovers.push_back(std::move(record));
}

std::optional<NextHop> InferenceSession::Impl::next_of(size_t index) const {
  if (!options_.push || index + 1 == chain_.spans.size()) return std::nullopt;
  const ChainSpan& next = chain_.spans[index + 1];
  return NextHop{next.hop.server, next.session};
}

PeerId InferenceSession::Impl::previous_of(size_t index) const {
  return !options_.push || index == 0 ? PeerId{} : chain_.spans[index - 1].hop.server.id;
}

// ---- the public face ---------------------------------------------------------------------------

InferenceSession::InferenceSession(SessionOptions options, SpanConnector& connector,
                                   Directory& directory, EventInbox& inbox, const Clock& clock,
                                   Rng& rng)
    : impl_(std::make_unique<Impl>(std::move(options), connector, directory, inbox, clock, rng)) {}
InferenceSession::~InferenceSession() = default;

Result<void> InferenceSession::open(const CancelToken* cancel) { return impl_->open(cancel); }
Result<std::vector<float>> InferenceSession::step(int64_t first_position,
                                                  std::span<const float> hidden, int64_t from,
                                                  const CancelToken* cancel) {
  return impl_->step(first_position, hidden, from, cancel);
}
int64_t InferenceSession::position() const { return impl_->position(); }
Chain InferenceSession::chain() const { return impl_->chain(); }
const SessionStats& InferenceSession::stats() const { return impl_->stats(); }

}  // namespace meadow::swarm
