#include "swarm/inference_session.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "swarm/hidden_codec.h"
#include "swarm/inference_session_impl.h"

namespace meadow::swarm {

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
  MEADOW_TRY(const Bytes bytes, encode(hidden, options_.codec, options_.n_embd));
  if (first < position_) roll_back();
  chain_.journal.truncate(first);
  for (ChainSpan& s : chain_.spans) {
    s.position = std::min(s.position, first);
    s.acknowledged = std::min(s.acknowledged, first);
  }
  const int64_t before = position_;
  position_ = first;
  MEADOW_TRY_VOID(consider_move(cancel));

  std::vector<float> out;
  const auto ahead = pipeline({first, n, bytes}, from, out, cancel);
  if (!ahead) {
    give_back(before, position_);
    return fail(ahead.error());
  }
  for (int64_t at = *ahead; at < first + n; at += chunk_positions()) {
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
        done ? decode(progress.result->output.bytes, options_.codec, options_.n_embd)
             : Result<std::vector<float>>(fail(std::move(done).error()));
    if (values &&
        static_cast<int64_t>(values->size()) != (progress.end() - wanted) * options_.n_embd)
      values = fail(Code::kCorrupt, "the last server answered {} values, expected {}",
                    values->size(), (progress.end() - wanted) * options_.n_embd);
    if (!values) {
      give_back(before, at);
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

// Outputs of steps so far are void from here on.
void InferenceSession::Impl::roll_back() {
  chain_.oldest_valid_step = last_step_ + 1;
  chain_.asked = 0;
}

// After an error: as it was before the step, or where the step had rolled back to.
void InferenceSession::Impl::give_back(int64_t before, int64_t reached) {
  position_ = std::min(before, reached);
  roll_back();
  chain_.journal.truncate(position_);
}

Result<void> InferenceSession::Impl::run_chunk(StepProgress& progress, int64_t from,
                                               const CancelToken* cancel) {
  const TimePoint began = clock_.now();
  TimePoint driven = began;
  // Whatever happened between two steps.
  while (auto event = inbox_.wait(began, nullptr)) chain_.apply(std::move(*event), began, progress);
  bool sent = false;
  // A result may come by the old route during a repair; the newcomers still need this step.
  bool repaired = false;
  while (!progress.result || repaired) {
    if (progress.own_mistake) return fail(std::move(*progress.own_mistake));
    if (chain_.spans.empty() || chain_.any_failed()) {
      // Chains that stand but never answer must not go on for ever.
      if (clock_.now() - began > options_.step_timeout + options_.give_up_after)
        return fail(Code::kDeadlineExceeded, "no answer within {:.0f} s in spite of replacements",
                    seconds(options_.step_timeout + options_.give_up_after));
      MEADOW_TRY_VOID(repair(progress.first, progress, cancel));
      sent = false;
      repaired = true;
      continue;
    }
    repaired = false;
    if (!sent) {
      drive(progress, from);
      driven = last_event_;
      sent = true;
    }
    if (progress.result) break;
    const TimePoint stall = last_event_ + silence(progress.count);
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
  if (at == chain_.spans.size()) return;
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
  const bool silent = now >= last_event_ + silence(progress.count);
  const bool late = now >= driven + options_.step_timeout;
  if (!silent && !late) return;
  ChainSpan& span = chain_.spans[chain_.frontier(progress)];
  chain_.fail_span(
      span,
      {Code::kDeadlineExceeded,
       fmt::format(
           "server {} {}", short_id(span.hop.server.id),
           late ? fmt::format("gave no answer within {:.1f} s", seconds(options_.step_timeout))
                : fmt::format("was silent for {:.1f} s", seconds(silence(progress.count))))});
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
