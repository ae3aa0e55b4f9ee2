#include "swarm/messages.h"

namespace meadow::swarm {

std::string_view name(Codec codec) {
  return codec == Codec::kF16 ? "f16" : codec == Codec::kQ8 ? "q8" : "f32";
}

std::optional<Codec> codec_from(std::string_view name) {
  if (name == "f32") return Codec::kF32;
  if (name == "f16") return Codec::kF16;
  if (name == "q8") return Codec::kQ8;
  return std::nullopt;
}

int64_t bytes_per_position(int64_t n_embd, Codec codec) {
  constexpr int64_t kBlock = 32, kScaleBytes = 2;  // of q8
  if (codec == Codec::kQ8) return n_embd + kScaleBytes * ((n_embd + kBlock - 1) / kBlock);
  return n_embd * (codec == Codec::kF16 ? 2 : 4);
}

Result<void> check(const HiddenStates& hidden, int64_t max_bytes) {
  constexpr int64_t kMaxPosition = int64_t{1} << 40;
  if (hidden.count <= 0)
    return fail(Code::kInvalidArgument, "hidden states: expected at least 1 position, got {}",
                hidden.count);
  if (hidden.first_position < 0 || hidden.first_position > kMaxPosition ||
      hidden.count > kMaxPosition)
    return fail(Code::kInvalidArgument, "hidden states: positions [{}, +{}) are out of range",
                hidden.first_position, hidden.count);
  if (static_cast<int64_t>(hidden.bytes.size()) > max_bytes)
    return fail(Code::kInvalidArgument, "hidden states: {} bytes, at most {} are allowed",
                hidden.bytes.size(), max_bytes);
  return {};
}

Result<void> check_width(const HiddenStates& hidden, int64_t n_embd, Codec codec) {
  const int64_t per_position = bytes_per_position(n_embd, codec);
  const int64_t size = static_cast<int64_t>(hidden.bytes.size());
  if (size % per_position != 0 || size / per_position != hidden.count)
    return fail(Code::kInvalidArgument,
                "hidden states: expected {} positions x {} values in {} = {} bytes each, got {} "
                "bytes",
                hidden.count, n_embd, name(codec), per_position, size);
  return {};
}

}  // namespace meadow::swarm
