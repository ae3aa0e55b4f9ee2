// Bytes of a stranger as the messages of a session, a push and gossip: what is accepted is in range
// (a server may index and allocate by it) and says the same again after one more trip.
#include <utility>

#include "base/check.h"
#include "rpc/wire_bytes.h"
#include "swarm/hidden_codec.h"
#include "swarm/lease.h"

namespace {

using namespace meadow;
using namespace meadow::swarm;

void check_input(const HiddenStates& input) {
  MEADOW_CHECK(input.count > 0 && input.first_position >= 0 && !input.bytes.empty());
  MEADOW_CHECK(static_cast<int64_t>(input.bytes.size()) <= kMaxStepBytes);
  MEADOW_CHECK(input.end() > input.first_position);
  (void)check_width(input, 64, Codec::kF32);
  if (auto values = decode(input.bytes, Codec::kF16))
    MEADOW_CHECK(values->size() * 2 == input.bytes.size());
}

void check_message(const ClientMessage& message) {
  if (const auto* step = std::get_if<StepRequest>(&message)) check_input(step->input);
  if (const auto* open = std::get_if<OpenRequest>(&message)) {
    MEADOW_CHECK(open->blocks.first >= 0 && !open->blocks.empty());
    MEADOW_CHECK(open->blocks.last <= kMaxBlocks && open->max_tokens >= 0);
    MEADOW_CHECK(bytes_per_position(1, open->codec) > 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView bytes(data, size);
  if (auto message = rpc::parse_client_message(bytes)) {
    check_message(*message);
    const Bytes once = rpc::serialise(std::move(*message));
    auto again = rpc::parse_client_message(once);
    MEADOW_CHECK(again.has_value());
    MEADOW_CHECK(rpc::serialise(std::move(*again)) == once);
  }
  if (auto message = rpc::parse_server_message(bytes)) {
    const Bytes once = rpc::serialise(std::move(*message));
    MEADOW_CHECK(rpc::parse_server_message(once).has_value());
  }
  if (auto push = rpc::parse_push(bytes)) check_input(push->input);
  if (auto exchange = rpc::parse_exchange(bytes)) {
    MEADOW_CHECK(exchange->news.size() <= kMaxLeasesPerExchange);
    for (const LeaseEntry& entry : exchange->news)
      MEADOW_CHECK(entry.lease.body.size() <= kMaxLeaseBytes);
  }
  return 0;
}
