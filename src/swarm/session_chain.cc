#include "swarm/session_chain.h"

#include <algorithm>

namespace meadow::swarm {

bool is_own_mistake(const Error& error) { return error.code == Code::kInvalidArgument; }

void SessionChain::apply(StreamEvent event, TimePoint now, StepProgress& progress) {
  const auto it = std::find_if(spans.begin(), spans.end(), [&](const ChainSpan& s) {
    return s.number == event.stream && s.stream != nullptr;
  });
  if (it == spans.end()) return;
  ChainSpan& span = *it;
  if (auto* closed = std::get_if<StreamClosed>(&event.what)) {
    if (!span.opened && is_own_mistake(closed->error)) progress.own_mistake = closed->error;
    const bool full = closed->error.code == Code::kResourceExhausted;
    return fail_span(span, std::move(closed->error), full);
  }
  span.heard = now;
  ServerMessage& message = std::get<ServerMessage>(event.what);
  if (std::holds_alternative<Opened>(message)) {
    span.opened = true;
  } else if (auto* output = std::get_if<StepOutput>(&message)) {
    on_output(static_cast<size_t>(it - spans.begin()), std::move(*output), progress);
  } else if (auto* failed = std::get_if<PushFailed>(&message)) {
    if (progress.covers(failed->step)) progress.relay.push_back(span.number);
  } else if (auto* refused = std::get_if<StepRefused>(&message)) {
    // Step 0: a resend that the server cannot do any more. The span is fed anew; nobody is blamed.
    if (refused->step == 0) return fail_span(span, std::move(refused->error), true);
    if (is_own_mistake(refused->error)) {
      progress.own_mistake = std::move(refused->error);
    } else {
      const bool full = refused->error.code == Code::kResourceExhausted;
      fail_span(span, std::move(refused->error), full);
    }
  }
}

void SessionChain::on_output(size_t index, StepOutput output, StepProgress& progress) {
  ChainSpan& span = spans[index];
  stats_.hidden_bytes_received += output.output.bytes.size();
  stats_.server_compute_us += output.compute_us;
  stats_.server_wait_us += output.wait_us;
  if (output.step < oldest_valid_step) return;
  // Nobody was asked for more than this; the journal must not grow by what is not true.
  if (output.output.end() > asked || output.position > asked)
    return fail_span(
        span, {Code::kCorrupt, fmt::format("server {} answered up to position {}, asked for {}",
                                           short_id(span.hop.server.id),
                                           std::max(output.output.end(), output.position), asked)});
  span.position = std::max(span.position, output.position);
  if (index + 1 < spans.size()) {
    journal.append(span.hop.blocks.last, output.output);
  } else if (progress.ahead) {
    progress.results.push_back(std::move(output));
  } else if (output.step == progress.step && !progress.result) {
    progress.result = std::move(output);
  }
}

size_t SessionChain::frontier(const StepProgress& progress) const {
  for (size_t i = 0; i + 1 < spans.size(); i++)
    if (journal.length(spans[i].hop.blocks.last) < progress.end()) return i;
  return progress.result ? spans.size() : spans.size() - 1;
}

bool SessionChain::any_failed() const {
  return std::any_of(spans.begin(), spans.end(),
                     [](const ChainSpan& s) { return s.failure.has_value(); });
}

void SessionChain::fail_span(ChainSpan& span, Error error, bool blameless) {
  if (span.failure) return;
  span.failure = std::move(error);
  span.blameless = blameless;
}

void SessionChain::send(ChainSpan& span, ClientMessage message, TimePoint now) {
  if (const auto* step = std::get_if<StepRequest>(&message)) {
    stats_.hidden_bytes_sent += step->input.bytes.size();
    asked = std::max(asked, step->input.end());
  }
  span.sent = now;
  span.stream->send(std::move(message));
}

void SessionChain::acknowledge(TimePoint now) {
  constexpr int64_t kEvery = 16;
  for (size_t i = 0; i + 1 < spans.size(); i++) {
    ChainSpan& span = spans[i];
    const int64_t known = journal.length(span.hop.blocks.last);
    if (span.failure || known < span.acknowledged + kEvery) continue;
    span.acknowledged = known;
    send(span, OutputAck{known}, now);
  }
}

void SessionChain::count_and_drop(ChainSpan& span) {
  if (!span.stream) return;
  stats_.bytes_sent += span.stream->bytes_sent();
  stats_.bytes_received += span.stream->bytes_received();
  span.stream.reset();
}

Chain SessionChain::hops() const {
  Chain out;
  for (const ChainSpan& s : spans) out.push_back(s.hop);
  return out;
}

}  // namespace meadow::swarm
