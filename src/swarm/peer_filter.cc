#include "swarm/peer_filter.h"

#include <algorithm>

namespace meadow::swarm {
namespace {

constexpr size_t kLeastDigits = 8;  // what short_id() shows

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool PeerFilter::Prefix::matches(const PeerId& other) const {
  const size_t whole = digits / 2;
  if (!std::equal(id.bytes.begin(), id.bytes.begin() + static_cast<ptrdiff_t>(whole),
                  other.bytes.begin()))
    return false;
  return digits % 2 == 0 || id.bytes[whole] >> 4 == other.bytes[whole] >> 4;
}

Result<PeerFilter::Prefix> PeerFilter::parse(std::string_view text) {
  Prefix out{.digits = text.size()};
  if (text.size() < kLeastDigits || text.size() > 2 * PeerId::kSize)
    return fail(Code::kInvalidArgument,
                "peer {}: expected {} to {} hexadecimal digits, the beginning of a peer id", text,
                kLeastDigits, 2 * PeerId::kSize);
  for (size_t i = 0; i < text.size(); i++) {
    const int value = digit(text[i]);
    if (value < 0)
      return fail(Code::kInvalidArgument,
                  "peer {}: expected hexadecimal digits, the beginning of a peer id", text);
    out.id.bytes[i / 2] |= static_cast<uint8_t>(i % 2 == 0 ? value << 4 : value);
  }
  return out;
}

Result<PeerFilter> PeerFilter::from(const std::vector<std::string>& allowed,
                                    const std::vector<std::string>& refused) {
  PeerFilter out;
  for (const std::string& text : allowed) {
    MEADOW_TRY(const Prefix prefix, parse(text));
    out.allowed_.push_back(prefix);
  }
  for (const std::string& text : refused) {
    MEADOW_TRY(const Prefix prefix, parse(text));
    out.refused_.push_back(prefix);
  }
  return out;
}

bool PeerFilter::passes(const PeerId& id) const {
  const auto matches = [&](const Prefix& p) { return p.matches(id); };
  if (std::any_of(refused_.begin(), refused_.end(), matches)) return false;
  return allowed_.empty() || std::any_of(allowed_.begin(), allowed_.end(), matches);
}

}  // namespace meadow::swarm
