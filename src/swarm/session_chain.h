// The chain of one inference session: its open streams, what each server is known to have done, and
// the journal that their outputs fill. Turns stream events into that state; decides nothing.
// Thread rule: the session's thread. Owns streams and journal.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "swarm/inference_session.h"
#include "swarm/journal.h"
#include "swarm/ports.h"

namespace meadow::swarm {

// A span of the chain: a hop, and the stream to its server.
struct ChainSpan {
  Hop hop;
  SessionId session;
  uint64_t number = 0;  // of the stream, in events
  uint32_t epoch = 0;   // that the server was told last
  std::unique_ptr<SpanStream> stream;
  bool opened = false;
  bool fed = false;              // has the positions before the present step
  std::optional<Error> failure;  // set once; the span is replaced at the next repair
  bool blameless = false;        // failed for lack of room or kept outputs: no penalty
  int64_t position = 0;          // end of the server's cache, as far as it told
  int64_t acknowledged = 0;      // outputs that the server was told to forget
  uint64_t relayed_step = 0;     // last step that the client passed on to it
  TimePoint sent, heard;         // last message to it, last sign of life from it
};

// What the present step has brought so far.
struct StepProgress {
  uint64_t step = 0;
  int64_t first = 0, count = 0;
  std::optional<StepOutput> result;  // of the last span
  std::optional<Error> own_mistake;  // refused because of what was asked, not of who was asked
  std::vector<uint64_t> relay;       // streams whose output the client must pass on
  // With several chunks on the way (`ahead`): first and count are the oldest one's, step is the
  // newest one's, and results come here.
  bool ahead = false;
  uint64_t oldest_step = 0;
  std::deque<StepOutput> results{};
  bool covers(uint64_t number) const {
    return ahead ? number >= oldest_step && number <= step : number == step;
  }
  int64_t end() const { return first + count; }
};

class SessionChain {
 public:
  SessionChain(int64_t bytes_per_position, SessionStats& stats)
      : journal(bytes_per_position), stats_(stats) {}

  // Applies one event. Events of streams that are no longer part of the chain change nothing.
  void apply(StreamEvent event, TimePoint now, StepProgress& progress);
  // First span that did not yet give its output of the step; spans.size() if all did.
  size_t frontier(const StepProgress& progress) const;
  bool any_failed() const;
  void fail_span(ChainSpan& span, Error error, bool blameless = false);
  // Sends, counted, and stamps the span.
  void send(ChainSpan& span, ClientMessage message, TimePoint now);
  // Tells servers which outputs they may forget.
  void acknowledge(TimePoint now);
  // Adds what a stream carried to the statistics, before it is dropped.
  void count_and_drop(ChainSpan& span);
  Chain hops() const;

  std::vector<ChainSpan> spans;  // in chain order
  Journal journal;
  uint64_t oldest_valid_step = 0;  // outputs of older steps were rolled back
  int64_t asked = 0;               // end of the furthest step sent, since the last rollback

 private:
  void on_output(size_t index, StepOutput output, StepProgress& progress);
  SessionStats& stats_;
};

// An error that another server would answer alike: the caller's own.
bool is_own_mistake(const Error& error);

}  // namespace meadow::swarm
