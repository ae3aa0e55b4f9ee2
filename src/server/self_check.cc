#include "server/self_check.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "swarm/address.h"
#include "swarm/blocking_inbox.h"
#include "swarm/hidden_codec.h"

namespace meadow::server {
namespace {

constexpr Duration kPause = 200ms;  // between two attempts

// The next message of the stream that is `Wanted`; an error if it ends or refuses before that.
template <class Wanted>
Result<Wanted> await(swarm::BlockingInbox& inbox, TimePoint until, const CancelToken* cancel) {
  while (auto event = inbox.wait(until, cancel)) {
    if (auto* closed = std::get_if<swarm::StreamClosed>(&event->what))
      return fail(std::move(closed->error));
    auto& message = std::get<swarm::ServerMessage>(event->what);
    if (auto* wanted = std::get_if<Wanted>(&message)) return std::move(*wanted);
    if (auto* refused = std::get_if<swarm::StepRefused>(&message))
      return fail(std::move(refused->error));
  }
  if (cancel != nullptr && cancel->cancelled())
    return fail(Code::kCancelled, "starting was interrupted");
  return fail(Code::kDeadlineExceeded, "no answer in time");
}

}  // namespace

std::string own_address(const std::string& bound) {
  auto at = swarm::parse_address(bound);
  if (!at) return bound;
  if (at->host == "0.0.0.0") at->host = "127.0.0.1";
  if (at->host == "::") at->host = "::1";
  return swarm::format(*at);
}

Result<void> check_answers(swarm::SpanConnector& connector, const swarm::PeerAddress& self,
                           swarm::OpenRequest open, int64_t n_embd, Duration limit,
                           const Clock& clock, const CancelToken* cancel) {
  const TimePoint until = clock.now() + limit;
  open.epoch = 1;
  open.max_tokens = 1;
  open.codec = swarm::Codec::kF32;
  const auto attempt = [&](swarm::BlockingInbox& inbox) -> Result<void> {
    random_bytes(open.session.bytes);
    const auto stream = connector.connect(self, open, inbox, 1);
    MEADOW_TRY_VOID(await<swarm::Opened>(inbox, until, cancel));
    const std::vector<float> zeros(static_cast<size_t>(n_embd));
    MEADOW_TRY(Bytes bytes, swarm::encode(zeros, open.codec));
    stream->send(swarm::StepRequest{open.epoch, 1, {0, 1, std::move(bytes)}, false, 0});
    MEADOW_TRY(const auto output, await<swarm::StepOutput>(inbox, until, cancel));
    return swarm::check_width(output.output, n_embd, open.codec);
  };
  std::optional<Error> last;  // what made us try again
  for (;;) {
    swarm::BlockingInbox inbox(clock);
    const Result<void> answered = attempt(inbox);
    if (answered) return {};
    const Code code = answered.error().code;
    if (code != Code::kDeadlineExceeded || !last) last = answered.error();
    if (code != Code::kUnavailable || clock.now() >= until)
      return fail(last->within(
          fmt::format("this server does not answer its own call at {}", self.address)));
    // A busy machine may not get through in the time of one connection.
    inbox.wait(std::min(until, clock.now() + kPause), cancel);
  }
}

}  // namespace meadow::server
