// One sequence driven through a chain of servers by its client, with the journal that lets any of
// them be replaced: the text does not change, whatever dies on the way.
// Algorithm: PETALS (arXiv 2312.08361), Algorithm 1: two caches, one at the servers (attention),
// one at the client (inputs of each span); here with pushes from server to server, epochs and step
// ids. Thread rule: one thread, except cancel tokens. Borrows its ports, which must outlive it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "swarm/directory.h"
#include "swarm/ports.h"
#include "swarm/routing.h"

namespace meadow::swarm {

struct SessionOptions {
  int32_t n_blocks = 0;
  int64_t n_embd = 0;
  int64_t max_tokens = 0;  // positions that the sequence may reach
  Codec codec = Codec::kF32;
  Digest fingerprint;
  uint32_t numerics = 0;
  PeerFilter filter{};              // servers that may be used
  int64_t prefill_chunk = 0;        // positions of a chunk of a long input; 0: from measured speeds
  bool push = true;                 // servers push to each other; off: every hop by the client
  Duration move_every{};            // looks for a better chain so often; zero: never
  double move_gain = 0.2;           // share of a step's time that a move must save
  Duration open_timeout = 5s;       // for a server to accept the session
  Duration stall_timeout = 1900ms;  // silence of the server at work: kMissedBeats and a margin
  Duration step_timeout = 600s;     // for one answer, beats or not
  Duration give_up_after = 60s;     // without any chain that works
};

// What happened, for --stats, the demo and tests. Bytes are payload bytes of hidden states.
struct FailoverRecord {
  std::vector<PeerId> failed;
  std::string reason;
  int64_t position = 0;         // of the sequence when it happened
  Duration detection{};         // last sign of life (message sent) to the failure being known
  Duration recovery{};          // from there to the chain standing again, replay included
  int64_t replayed_tokens = 0;  // positions sent again, summed over spans
};
struct SessionStats {
  uint64_t bytes_sent = 0, bytes_received = 0;  // on the streams
  uint64_t hidden_bytes_sent = 0, hidden_bytes_received = 0;
  int64_t steps = 0, tokens = 0;
  int64_t replays = 0, replayed_tokens = 0;
  int64_t moves = 0;                 // to a better chain
  int64_t resends = 0, relayed = 0;  // relayed: hops by the client after a failed push
  Duration waiting{};                // for answers
  uint64_t server_compute_us = 0, server_wait_us = 0;
  std::vector<FailoverRecord> failovers;
};

// What a stage of the chain is to a prompt: its blocks, announced speeds (tokens/s through one
// block), and the round trip to the stage after it (0: not known).
struct StageSpeed {
  int32_t blocks = 0;
  double decode = 0, prefill = 0;
  double rtt_to_next = 0;
};
// Positions of a chunk with which `positions` pass through all stages soonest.
int64_t pipeline_chunk(std::span<const StageSpeed> stages, int64_t positions);

class InferenceSession {
 public:
  InferenceSession(SessionOptions options, SpanConnector& connector, Directory& directory,
                   EventInbox& inbox, const Clock& clock, Rng& rng);
  ~InferenceSession();
  InferenceSession(const InferenceSession&) = delete;
  InferenceSession& operator=(const InferenceSession&) = delete;

  // Finds a chain and opens it. Blocks; kUnavailable names blocks without a server once
  // give_up_after has passed, kCancelled if `cancel` (may be null) is set.
  Result<void> open(const CancelToken* cancel);

  // Advances to first_position + n. first_position is at most position(); less rolls back.
  //   hidden: f32 [n_embd, n] entering block 0
  // Returns f32 [n_embd, n - (from - first_position)]: what leaves the last block for positions
  // >= from (first_position <= from < first_position + n), f32 after the session's codec.
  // Blocks until done; replaces failed servers meanwhile. On an error position() is unchanged
  // (kInvalidArgument, kResourceExhausted: the caller's mistake, no server is blamed).
  Result<std::vector<float>> step(int64_t first_position, std::span<const float> hidden,
                                  int64_t from, const CancelToken* cancel);

  int64_t position() const;
  Chain chain() const;  // as it stands
  const SessionStats& stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace meadow::swarm
