// "Online" is announced only by a server that answers: it calls itself, through its own port and
// all of TLS, admission, session and computing, as any client would. Thread rule: one thread, not
// one of gRPC's; blocks. Borrows everything.
#pragma once
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "swarm/ports.h"

namespace meadow::server {

// The address to call oneself at: the bound one, with loopback in place of "every interface".
std::string own_address(const std::string& bound);

// Opens a session of one position and takes one step of zeros, f32 [n_embd, 1]. The error says what
// did not work, and where. What cannot be reached is tried again until `limit` has passed.
Result<void> check_answers(swarm::SpanConnector& connector, const swarm::PeerAddress& self,
                           swarm::OpenRequest open, int64_t n_embd, Duration limit,
                           const Clock& clock, const CancelToken* cancel);

}  // namespace meadow::server
