// A server's half of the session protocol: admits sessions, orders and checks their steps,
// computes, passes outputs on. Knows no transport and no model: ports.h. Thread rule: every
// function from any thread; one lock, never held while computing. Owns the served sessions; borrows
// its ports, which must outlive it (and the worker be stopped first).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "swarm/lease.h"
#include "swarm/ports.h"

namespace meadow::swarm {

// What one served session did, told when it ends.
struct ServedSessionReport {
  PeerId client;
  BlockRange blocks;
  int64_t steps = 0, tokens = 0, replayed_tokens = 0;
  uint64_t hidden_bytes_in = 0, hidden_bytes_out = 0;
  uint64_t compute_us = 0, wait_us = 0;
  Duration lifetime{};
};

struct SpanServiceOptions {
  BlockRange blocks;
  int64_t n_embd = 0;
  int64_t max_context = 0;  // longest session
  Digest fingerprint;
  uint32_t numerics = 0;
  int64_t max_sessions = 256;
  int64_t max_kept_outputs = 64 << 20;  // bytes of unacknowledged outputs kept per session
  Duration push_timeout = 2s;
  // Called with the service's lock held when a session has ended; must only note or print.
  std::function<void(const ServedSessionReport&)> on_session_end;
};

// Work of one kind: tokens times the blocks that each went through, and the time it took.
struct WorkDone {
  uint64_t block_tokens = 0;
  uint64_t compute_us = 0;
};
// Steps of at least so many tokens count as prompts; of one, as decoding.
constexpr int64_t kPromptStep = 32;

struct SpanServiceStats {
  uint64_t hidden_bytes_in = 0, hidden_bytes_out = 0;
  int64_t sessions = 0, sessions_total = 0;
  int64_t steps = 0, tokens = 0, replayed_tokens = 0, duplicates = 0, refused = 0;
  int64_t pushes = 0, pushes_failed = 0;
  uint64_t compute_us = 0, wait_us = 0;
  int64_t queued_tokens = 0;  // waiting or in work now
  WorkDone decoded, prompted;
};

class SpanService {
 public:
  SpanService(SpanServiceOptions options, SpanCompute& compute, Worker& worker, PushPort& push,
              const Clock& clock);
  ~SpanService();

  // A stream's first message, from the peer with this key. The session lives as long as the stream:
  // the answer (Opened, or close with an error) comes through `sink`. Returns the stream's number
  // for the calls below.
  uint64_t open(const PeerId& client, OpenRequest request, std::shared_ptr<ClientSink> sink);
  // A further message of that stream; OpenRequest again is an error of the stream.
  void receive(uint64_t stream, ClientMessage message);
  // The stream ended; its session's cache is freed.
  void closed(uint64_t stream);

  // A pushed input. Refused unless `from` is the session's previous server and the epoch fits; the
  // error goes back to the pusher and touches nothing.
  Result<void> push(const PeerId& from, PushRequest request);

  // Sends beats for steps in work. Call every kBeatPeriod from a thread that does not compute.
  void tick();

  // Refuses new sessions from now on (leaving).
  void drain();
  SpanServiceStats stats() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace meadow::swarm
