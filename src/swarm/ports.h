// The worlds outside the session protocol, each a small port: streams to servers, pushes between
// servers, the compute of a span, a task queue. rpc/ and server/ have the real ones; fakes.h and
// tests/sim the ones that live in virtual time.
// Thread rule: said at each port.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "swarm/messages.h"

namespace meadow::swarm {

// ---- the client's side -------------------------------------------------------------------------

// What a stream reports. `stream` is the number that the client gave it on opening.
struct StreamClosed {
  Error error;  // also when the server ended the stream in good order
};
struct StreamEvent {
  uint64_t stream = 0;
  std::variant<ServerMessage, StreamClosed> what;
};

// Where the events of one client's streams arrive. post() from any thread, never blocks; wait() by
// the session's own thread.
class EventInbox {
 public:
  virtual ~EventInbox() = default;
  virtual void post(StreamEvent event) = 0;
  // The next event, or nothing once `until` has come or `cancel` (may be null) is set. Blocks.
  virtual std::optional<StreamEvent> wait(TimePoint until, const CancelToken* cancel) = 0;
};

// One stream to one server for one session. Destroying it closes it; no event follows that.
class SpanStream {
 public:
  virtual ~SpanStream() = default;
  // Queues a message; never blocks. A failure arrives as StreamClosed.
  virtual void send(ClientMessage message) = 0;
  // Bytes written to and read from the wire so far (payloads and framing as far as known).
  virtual uint64_t bytes_sent() const = 0;
  virtual uint64_t bytes_received() const = 0;
};

// Opens streams. connect() from the session's thread; never blocks: the answer (Opened or
// StreamClosed) arrives in `inbox` under the number `stream`. `inbox` must outlive the stream.
class SpanConnector {
 public:
  virtual ~SpanConnector() = default;
  virtual std::unique_ptr<SpanStream> connect(const PeerAddress& server, OpenRequest request,
                                              EventInbox& inbox, uint64_t stream) = 0;
};

// ---- the server's side -------------------------------------------------------------------------

// Where a served session's messages to its client go. Called with the service's lock held: must
// only queue, never block and never call back.
class ClientSink {
 public:
  virtual ~ClientSink() = default;
  virtual void send(ServerMessage message) = 0;
  // Ends the stream with an error; nothing is sent after it.
  virtual void close(Error error) = 0;
};

// Sends an output to the next server. push() only starts it and never blocks; `done` is called
// once, from any thread, at the latest when `deadline` passes, and never from inside push().
class PushPort {
 public:
  virtual ~PushPort() = default;
  virtual void push(const PeerAddress& to, PushRequest request, Deadline deadline,
                    std::function<void(Result<void>)> done) = 0;
};

// Sends bytes to another peer and back, to measure the network between them. probe() only starts it
// and never blocks; `done` gets the time that it took, connecting not counted, once, from any
// thread.
class ProbePort {
 public:
  virtual ~ProbePort() = default;
  // At most kMaxProbeBytes each way. kResourceExhausted: that peer was probed enough for now.
  virtual void probe(const PeerAddress& peer, uint32_t bytes_each_way, Deadline deadline,
                     std::function<void(Result<Duration>)> done) = 0;
};
constexpr uint32_t kMaxProbeBytes = 256 << 10;

// The blocks themselves: engine::SpanExecutor behind a port. Called from the worker thread only.
class SpanCompute {
 public:
  virtual ~SpanCompute() = default;
  // Reserves cache for `max_tokens` positions of the blocks; kResourceExhausted if there is no
  // room.
  virtual Result<void> open(SessionId session, BlockRange blocks, int64_t max_tokens) = 0;
  virtual void close(SessionId session) = 0;
  // hidden f32 [n_embd, n] in, f32 [n_embd, n] out; first_position at most the cache's end (less
  // rolls back). Blocks while computing. On an error the session is at first_position.
  virtual Result<std::vector<float>> forward(SessionId session, int64_t first_position,
                                             std::span<const float> hidden,
                                             const CancelToken& cancel) = 0;
};

// Runs tasks one after another, in order, on the one thread that may touch SpanCompute. post() from
// any thread; never runs the task inside the call.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual void post(std::function<void()> task) = 0;
};

// Times of the protocol, the same for all (docs/wire-format.md).
constexpr Duration kBeatPeriod = 500ms;
constexpr int kMissedBeats = 3;
// Of a link in use: states on the wire at this rate are neither silence nor a failed push.
constexpr double kLeastBytesPerS = 125e3;

}  // namespace meadow::swarm
