// Inside of InferenceSession, for the two files that implement it: inference_session.cc drives
// steps, session_repair.cc replaces servers. Thread rule and ownership: as inference_session.h.
#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "swarm/inference_session.h"
#include "swarm/session_chain.h"

namespace meadow::swarm {

inline constexpr int64_t kChunkBytes = int64_t{1}
                                       << 20;  // a step's input; long prompts take several steps
inline constexpr int64_t kReplayWindow = 4;    // chunks sent ahead of their acknowledgement
// Steps are numbered kStepStride apart. Replays before step n use numbers between n - 1 and n, so
// that to a newcomer step n is new, and to a server that did it already, a duplicate.
inline constexpr uint64_t kStepStride = uint64_t{1} << 20;

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
        bytes_per_position_(swarm::bytes_per_position(options_.n_embd, options_.codec)),
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

  // How long nothing may be heard while the states of so many positions are on their way. Twice:
  // a server's push and its copy to the client share a link.
  Duration silence(int64_t positions) const {
    const auto bytes = static_cast<double>(positions * bytes_per_position_);
    return options_.stall_timeout + from_seconds(2 * bytes / kLeastBytesPerS);
  }

  std::optional<Chain> better_chain() const;
  Result<void> consider_move(const CancelToken* cancel);
  void roll_back();
  void give_back(int64_t before, int64_t reached);
  int64_t chunk_of(int64_t positions) const;
  Result<int64_t> pipeline(const HiddenStates& input, int64_t from, std::vector<float>& out,
                           const CancelToken* cancel);
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
  RouteRequest route_request() const;
  void lay_out(const Chain& chain);
  void announce_route();
  Result<void> await_opened(StepProgress& progress, const CancelToken* cancel);
  Result<void> feed(size_t index, int64_t need, StepProgress& progress, const CancelToken* cancel);
  Result<void> fill_journal(size_t index, int64_t need, StepProgress& progress,
                            const CancelToken* cancel);
  Result<void> pause(TimePoint until, StepProgress& progress, const CancelToken* cancel);
  std::string failed_blocks() const;
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
  TimePoint next_look_{};                   // for a better chain
  TimePoint last_event_{};                  // sign of life of the chain during the present step
  Code last_failure_ = Code::kUnavailable;  // of a server during the present repair
  std::vector<PeerId> avoid_;               // failed during the present repair
};

}  // namespace meadow::swarm
