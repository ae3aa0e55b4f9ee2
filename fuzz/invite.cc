// Text of a stranger as an invite, a swarm, a peer: never out of bounds, and what is accepted can
// be written and read again.
#include "swarm/invite.h"

#include "base/check.h"
#include "swarm/address.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace meadow::swarm;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto invite = parse_invite(text)) {
    MEADOW_CHECK(parse_invite(invite->text()) == *invite);
    MEADOW_CHECK(!invite->redacted().empty());
  }
  if (const auto peer = parse_peer(text)) MEADOW_CHECK(parse_peer(format(*peer)) == *peer);
  if (const auto address = parse_address(text))
    MEADOW_CHECK(parse_address(format(*address)) == *address);
  (void)parse_swarm(text);
  return 0;
}
