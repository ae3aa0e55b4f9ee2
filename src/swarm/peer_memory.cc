#include "swarm/peer_memory.h"

#include <algorithm>
#include <fstream>

#include "swarm/address.h"
#include "swarm/state_file.h"

namespace meadow::swarm {
namespace {

constexpr std::string_view kTitle = "meadow peers 1 ";
constexpr size_t kMaxFileBytes = 128 + kMaxRemembered * (kMaxAddressBytes + 1);

std::string first_line(const Digest& swarm) {
  return fmt::format("{}{}\n", kTitle, hex(sha256(ByteView(swarm.bytes))));
}

}  // namespace

Result<std::vector<std::string>> parse_remembered(std::string_view text, const Digest& swarm) {
  if (text.size() > kMaxFileBytes)
    return fail(Code::kCorrupt, "{} bytes, at most {} are expected", text.size(), kMaxFileBytes);
  const std::string title = first_line(swarm);
  if (!text.starts_with(kTitle)) return fail(Code::kCorrupt, "does not begin with '{}'", kTitle);
  if (!text.starts_with(title)) return fail(Code::kFailedPrecondition, "it is of another swarm");
  text.remove_prefix(title.size());
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == text.npos) return fail(Code::kCorrupt, "its last line is cut");
    if (out.size() == kMaxRemembered)
      return fail(Code::kCorrupt, "more than {} addresses", kMaxRemembered);
    MEADOW_TRY(const HostPort address, parse_dialable(text.substr(0, end)));
    out.push_back(format(address));
    text.remove_prefix(end + 1);
  }
  return out;
}

std::string format_remembered(const std::vector<std::string>& addresses, const Digest& swarm) {
  std::string out = first_line(swarm);
  for (size_t i = 0; i < std::min(addresses.size(), kMaxRemembered); i++)
    out += addresses[i] + "\n";
  return out;
}

Result<std::vector<std::string>> load_remembered(const std::string& path, const Digest& swarm) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::vector<std::string>{};
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  auto out = parse_remembered(text, swarm);
  if (!out) return fail(out.error().within(path));
  return out;
}

Result<void> store_remembered(const std::string& path, const std::vector<std::string>& addresses,
                              const Digest& swarm) {
  return replace_file(path, format_remembered(addresses, swarm));
}

}  // namespace meadow::swarm
