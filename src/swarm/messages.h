// What travels between a client and the servers of its chain, and between those servers. Transport
// free: rpc/ maps each struct to one message of proto/meadow/v1.
// Thread rule: values; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/bytes.h"
#include "base/result.h"
#include "base/types.h"

namespace meadow::swarm {

// How hidden states are written as bytes. Fixed for a session; part of every step message.
enum class Codec : uint8_t {
  kF32 = 1,  // exact
  kF16 = 2,  // rounded to nearest even; half the bytes
  kQ8 = 3,   // 8 bits and a scale per 32 values; about a quarter of the bytes
};
std::string_view name(Codec codec);
std::optional<Codec> codec_from(std::string_view name);
// Bytes of the n_embd values of one position.
int64_t bytes_per_position(int64_t n_embd, Codec codec);

// Where a peer can be dialled, and whose key must answer.
struct PeerAddress {
  PeerId id;
  std::string address;  // host:port
  auto operator<=>(const PeerAddress&) const = default;
};

// The server after this one in the chain, and the name of its served session. Every span of a chain
// has a session id of its own, so one server may stand in a chain twice.
struct NextHop {
  PeerAddress server;
  SessionId session;
  auto operator<=>(const NextHop&) const = default;
};

// Hidden states of consecutive positions of one session.
//   bytes: [n_embd, count] in the session's codec, little-endian
struct HiddenStates {
  int64_t first_position = 0;
  int64_t count = 0;
  Bytes bytes;

  int64_t end() const { return first_position + count; }
};

// ---- client -> server, on the session's stream ------------------------------------------------

// First message of a stream. The server answers Opened or closes with an error.
struct OpenRequest {
  SessionId session;  // random, of this span alone
  uint32_t epoch = 0;
  BlockRange blocks;       // part of what the server holds
  int64_t max_tokens = 0;  // cache positions to reserve
  Codec codec = Codec::kF32;
  Digest fingerprint;           // of the client's model file
  uint32_t numerics = 0;        // kernels::kNumericsVersion
  PeerId previous;              // who may push; zero: nobody, the client feeds this span
  std::optional<NextHop> next;  // whom to push to; none: this span is the chain's last
};

// One step: input of this span for positions [first, first + count). Where the output is pushed on,
// the client gets a copy of all of it; elsewhere (the last span, a replay) it gets positions >=
// outputs_from, possibly none.
struct StepRequest {
  uint32_t epoch = 0;
  uint64_t step = 0;  // grows by one per step; the same step again is a duplicate
  HiddenStates input;
  bool push = true;          // pass the output on to `next`; false while replaying
  int64_t outputs_from = 0;  // see below
};

// After a failover: who is beside this server from now on.
struct RouteUpdate {
  uint32_t epoch = 0;
  PeerId previous;
  std::optional<NextHop> next;
};

// The client has this span's outputs below `position`; the server may forget them.
struct OutputAck {
  int64_t position = 0;
};

// Send again the outputs of positions [from, end of cache), which were not acknowledged. If they
// are no longer kept, StepRefused with step 0 says so.
struct ResendRequest {
  int64_t from = 0;
};

using ClientMessage = std::variant<OpenRequest, StepRequest, RouteUpdate, OutputAck, ResendRequest>;

// ---- server -> client, on the same stream -----------------------------------------------------

struct Opened {};

// Output of this span: the reply if it is the last one, else the copy for the client's journal.
struct StepOutput {
  uint32_t epoch = 0;
  uint64_t step = 0;
  HiddenStates output;
  int64_t position = 0;     // end of this server's cache after the step
  uint32_t compute_us = 0;  // time computing
  uint32_t wait_us = 0;     // time from arrival to the start of computing
};

// The server is at work on this step (or waits for its turn); sent every kBeatPeriod.
struct Beat {
  uint32_t epoch = 0;
  uint64_t step = 0;
};

// The next server did not take the output. The client passes it on, or replaces that server.
struct PushFailed {
  uint32_t epoch = 0;
  uint64_t step = 0;
  Error error;
};

// The server refuses this step; the session stays as it was before it.
struct StepRefused {
  uint32_t epoch = 0;
  uint64_t step = 0;
  Error error;
};

using ServerMessage = std::variant<Opened, StepOutput, Beat, PushFailed, StepRefused>;

// ---- server -> server --------------------------------------------------------------------------

// The output of the previous span, which is the input of the receiver.
struct PushRequest {
  SessionId session;  // the receiver's: NextHop::session
  uint32_t epoch = 0;
  uint64_t step = 0;
  HiddenStates input;
  int64_t outputs_from = 0;
};

// Checks that need no session: count > 0, first_position >= 0, no overflow, at most `max_bytes`.
// Bytes are checked against [n_embd, count] where the width is known: check_width().
Result<void> check(const HiddenStates& hidden, int64_t max_bytes);
Result<void> check_width(const HiddenStates& hidden, int64_t n_embd, Codec codec);

// Largest hidden-state payload of one message. Longer inputs travel in several steps.
constexpr int64_t kMaxStepBytes = int64_t{4} << 20;

}  // namespace meadow::swarm
