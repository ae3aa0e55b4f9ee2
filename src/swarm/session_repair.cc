// Repair: replaces the failed spans of a chain and feeds the newcomers from the journal, in one go.
#include <algorithm>

#include "base/check.h"
#include "swarm/inference_session_impl.h"

namespace meadow::swarm {

// Replaces every failed span (or makes the first chain) and feeds the newcomers `need` positions.
Result<void> InferenceSession::Impl::repair(int64_t need, StepProgress& progress,
                                            const CancelToken* cancel) {
  const TimePoint began = clock_.now(), give_up = began + options_.give_up_after;
  const size_t records = stats_.failovers.size();
  avoid_.clear();
  last_failure_ = Code::kUnavailable;
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
      // Only servers without room were found: another time, or a shorter context, may do.
      const bool full = last_failure_ == Code::kResourceExhausted;
      return fail(full ? Code::kResourceExhausted : Code::kUnavailable, "{}{}", error.message,
                  reason);
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

// "blocks 10 to 19 have": those of the spans that failed last.
std::string InferenceSession::Impl::failed_blocks() const {
  std::string out;
  for (const ChainSpan& s : chain_.spans) {
    if (!s.failure) continue;
    const BlockRange b = s.hop.blocks;
    out += out.empty() ? "blocks " : ", ";
    out += fmt::format("{} to {}", b.first, b.last - 1);
  }
  return out + " have";
}

// One attempt. kUnavailable: a span failed on the way (it is marked), or nobody is there.
Result<void> InferenceSession::Impl::replace_failed(int64_t need, TimePoint give_up,
                                                    StepProgress& progress,
                                                    const CancelToken* cancel) {
  MEADOW_TRY(const Chain chain, find_replacements(give_up, progress, cancel));
  lay_out(chain);
  MEADOW_TRY_VOID(await_opened(progress, cancel));
  for (size_t i = 0; i < chain_.spans.size(); i++) {
    if (chain_.spans[i].fed) continue;
    // A span whose output of the present step is known already will not be driven: it gets that
    // too.
    const bool done = i < chain_.frontier(progress);
    MEADOW_TRY_VOID(feed(i, done ? std::max(need, progress.end()) : need, progress, cancel));
  }
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
    RouteRequest gap = route_request();
    gap.blocks = {0, 0};  // without a healthy span, growing
    const auto fill = [&](int32_t until, std::optional<PeerId> next) {
      gap.blocks.last = until;
      gap.next = next;
      if (gap.blocks.empty() || missing) return;
      gap.avoid = avoid_;
      auto route = find_route(servers, gap);
      // Better a server that failed than none: the one whose failure is longest ago.
      while (!route && !gap.avoid.empty()) {
        gap.avoid.erase(gap.avoid.begin());
        route = find_route(servers, gap);
      }
      if (route) {
        chain.insert(chain.end(), route->chain.begin(), route->chain.end());
      } else {
        missing = std::move(route).error();
      }
    };
    for (const ChainSpan& s : chain_.spans) {
      if (s.failure) continue;
      fill(s.hop.blocks.first, s.hop.server.id);
      chain.push_back(s.hop);
      gap.blocks.first = s.hop.blocks.last;
      gap.previous = s.hop.server.id;
    }
    fill(options_.n_blocks, std::nullopt);
    if (!missing) return chain;
    if (clock_.now() >= give_up)
      return fail(missing->code, "{}; waited {:.0f} s", missing->message,
                  seconds(options_.give_up_after));
    avoid_.clear();
    MEADOW_TRY_VOID(pause(std::min(give_up, clock_.now() + Duration(250ms)), progress, cancel));
  }
}

// What this session asks of every route.
RouteRequest InferenceSession::Impl::route_request() const {
  RouteRequest request{{0, options_.n_blocks}};
  request.max_tokens = options_.max_tokens;
  request.filter = options_.filter;
  request.codec = options_.codec;
  request.push = options_.push;
  request.bytes_per_token = static_cast<double>(bytes_per_position_);
  return request;
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
    if (chain_.any_failed())
      return fail(Code::kUnavailable, "{} no server that answers", failed_blocks());
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
    const Duration limit = silence(sent - span.position);
    MEADOW_TRY_VOID(await(progress, last_event_ + limit, cancel));
    if (clock_.now() >= last_event_ + limit)
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
  const TimePoint until = clock_.now() + silence(need - chain_.journal.length(border));
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
    if (!s.blameless || s.failure->code == Code::kResourceExhausted) {
      std::erase(avoid_, s.hop.server.id);
      avoid_.push_back(s.hop.server.id);
    }
    record.failed.push_back(s.hop.server.id);
    last_failure_ = s.failure->code;
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

}  // namespace meadow::swarm
