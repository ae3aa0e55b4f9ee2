// Long inputs: several chunks on their way through the chain at once, so that the servers work at
// the same time. Only while all goes well: after any trouble the rest takes the way of
// inference_session.cc, one chunk after another, which is where servers are replaced. The bits do
// not depend on the cut.
#include <algorithm>
#include <cmath>
#include <deque>

#include "swarm/hidden_codec.h"
#include "swarm/inference_session_impl.h"
#include "swarm/route_costs.h"

namespace meadow::swarm {
namespace {

constexpr size_t kMostInFlight = 8;   // chunks; a server lets 16 wait
constexpr int64_t kLeastChunk = 32;   // positions: below, weights are read too often
constexpr int64_t kPlainChunk = 128;  // where speeds are not known

}  // namespace

// A chunk of c positions takes a + b c at a stage (a: weights are read, b: the rest; both from
// announced speeds). P positions over stages then take about c (sum b - max b) + P max b + P max a
// / c: least at c = sqrt(P max a / (sum b - max b)). A push is answered before the next one starts,
// so a chunk should also take a stage as long as the way to the next and back.
int64_t pipeline_chunk(std::span<const StageSpeed> stages, int64_t positions) {
  double sum_b = 0, most_a = 0, most_b = 0, longest_way = 0;
  for (const StageSpeed& s : stages) {
    if (s.decode <= 0 || s.prefill <= s.decode) return kPlainChunk;
    const double a = s.blocks * (1 / s.decode - 1 / s.prefill) + kHopSeconds;
    const double b = s.blocks / s.prefill;
    sum_b += b;
    most_a = std::max(most_a, a);
    most_b = std::max(most_b, b);
    longest_way = std::max(longest_way, s.rtt_to_next);
  }
  if (stages.size() < 2) return positions;
  const double balanced = std::sqrt(static_cast<double>(positions) * most_a / (sum_b - most_b));
  const double covers_way = (longest_way - most_a) / most_b;
  const double chunk = std::clamp(std::max(balanced, covers_way), static_cast<double>(kLeastChunk),
                                  static_cast<double>(std::max(positions, kLeastChunk)));
  return (static_cast<int64_t>(chunk) + kLeastChunk - 1) / kLeastChunk * kLeastChunk;
}

int64_t InferenceSession::Impl::chunk_of(int64_t positions) const {
  if (options_.prefill_chunk > 0) return std::min(options_.prefill_chunk, chunk_positions());
  std::vector<StageSpeed> stages;
  const std::vector<ServerInfo> servers = directory_.online();
  for (size_t i = 0; i < chain_.spans.size(); i++) {
    const Hop& hop = chain_.spans[i].hop;
    const auto it = std::find_if(servers.begin(), servers.end(),
                                 [&](const ServerInfo& s) { return s.peer.id == hop.server.id; });
    if (it == servers.end()) return std::min(kPlainChunk, chunk_positions());
    StageSpeed stage{hop.blocks.size(), it->lease.speed.decode, it->lease.speed.prefill, 0};
    if (i + 1 < chain_.spans.size())
      for (const Link& link : it->lease.links)
        if (link.peer == chain_.spans[i + 1].hop.server.id)
          stage.rtt_to_next = static_cast<double>(link.rtt_seconds);
    stages.push_back(stage);
  }
  return std::min(pipeline_chunk(stages, positions), chunk_positions());
}

// Sends [first, end) in chunks, several at once, and appends to `out` what comes back for positions
// >= from. Returns the position that the whole chain has reached: `first` where nothing is gained
// by chunks, less than `end` after trouble. position_ follows.
Result<int64_t> InferenceSession::Impl::pipeline(const HiddenStates& input, int64_t from,
                                                 std::vector<float>& out,
                                                 const CancelToken* cancel) {
  const int64_t first = input.first_position, end = input.end();
  if (!options_.push || chain_.spans.size() < 2 || chain_.any_failed()) return first;
  const int64_t chunk = chunk_of(end - first);
  if (end - first <= chunk) return first;

  struct Sent {
    uint64_t step;
    int64_t first, count;
  };
  std::deque<Sent> sent;
  int64_t next = first;
  const TimePoint began = clock_.now();
  TimePoint driven = last_event_ = began;
  StepProgress progress{.ahead = true};
  const auto oldest = [&] {  // whose result is waited for
    progress.oldest_step = sent.front().step;
    progress.first = sent.front().first;
    progress.count = sent.front().count;
  };
  while (position_ < end) {
    while (next < end && sent.size() < kMostInFlight) {
      const int64_t count = std::min(chunk, end - next);
      last_step_ += kStepStride;
      last_replay_ = last_step_ - kStepStride;
      progress.step = last_step_;
      HiddenStates part{next, count, {}};
      const auto begin = input.bytes.begin() + (next - first) * bytes_per_position_;
      part.bytes.assign(begin, begin + count * bytes_per_position_);
      MEADOW_CHECK(chain_.journal.append(0, part));
      chain_.send(chain_.spans[0],
                  StepRequest{epoch_, last_step_, std::move(part), true,
                              std::clamp(from, next, next + count)},
                  clock_.now());
      sent.push_back({last_step_, next, count});
      next += count;
    }
    oldest();
    MEADOW_TRY_VOID(await(
        progress, std::min(last_event_ + silence(next - position_), driven + options_.step_timeout),
        cancel));
    if (progress.own_mistake) return fail(std::move(*progress.own_mistake));
    for (; !progress.results.empty() && !sent.empty(); progress.results.pop_front()) {
      const StepOutput& output = progress.results.front();
      if (output.step != sent.front().step) continue;
      const int64_t wanted =
          std::clamp(from, sent.front().first, sent.front().first + sent.front().count);
      const int64_t values = (sent.front().first + sent.front().count - wanted) * options_.n_embd;
      MEADOW_TRY(const auto decoded, decode(output.output.bytes, options_.codec, options_.n_embd));
      if (static_cast<int64_t>(decoded.size()) != values)
        return fail(Code::kCorrupt, "the last server answered {} values, expected {}",
                    decoded.size(), values);
      out.insert(out.end(), decoded.begin(), decoded.end());
      position_ = sent.front().first + sent.front().count;
      sent.pop_front();
      driven = clock_.now();
      chain_.acknowledge(driven);
    }
    if (!sent.empty()) {
      oldest();
      const bool silent = clock_.now() >= last_event_ + silence(next - position_);
      if (silent || clock_.now() >= driven + options_.step_timeout) check_stall(progress, driven);
    }
    if (chain_.any_failed() || !progress.relay.empty()) break;
  }
  stats_.waiting += clock_.now() - began;
  return position_;
}

}  // namespace meadow::swarm
