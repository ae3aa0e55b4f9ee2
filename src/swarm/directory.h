// Who serves what, as a client or a joining server sees it: the port that routing and sessions ask.
// membership.h has the real one (from gossiped leases); tests use a fixed one.
// Thread rule: implementations are safe from any thread.
#pragma once
#include <vector>

#include "base/clock.h"
#include "swarm/lease.h"

namespace meadow::swarm {

struct ServerInfo {
  PeerAddress peer;
  Lease lease;
  Duration rtt{-1};  // measured round trip; negative: not known
  bool left_out =
      false;  // failed lately, or without room: for those blocks only that nobody else has
  bool silent = false;  // it was pinged and did not answer the last time
};

class Directory {
 public:
  virtual ~Directory() = default;
  // Servers online for this model (same fingerprint, numerics). Failed ones are not among them, but
  // for those that alone hold some block: these come marked left_out.
  virtual std::vector<ServerInfo> online() const = 0;
  // The server failed somebody just now: out of online() at once, until a newer lease has come and
  // a growing, decaying penalty has passed. A refusal for lack of room is no failure; see
  // report_full.
  virtual void report_failure(const PeerId& server, const Error& why) = 0;
  // No room there: left out for a moment only, without blame.
  virtual void report_full(const PeerId& server) = 0;
  // It answered: penalties shrink.
  virtual void report_success(const PeerId& server) = 0;
};

}  // namespace meadow::swarm
