#include "swarm/hidden_codec.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace meadow::swarm {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

namespace {
std::unexpected<Error> not_finite(size_t index) {
  return fail(Code::kInvalidArgument,
              "hidden states: value {} is not finite, or too large for the codec", index);
}
}  // namespace

Result<Bytes> encode(std::span<const float> values, Codec codec) {
  Bytes out(values.size() * static_cast<size_t>(bytes_per_value(codec)));
  for (size_t i = 0; i < values.size(); i++) {
    if (!std::isfinite(values[i])) return not_finite(i);
    if (codec == Codec::kF16) {
      const uint16_t half = float_to_half(values[i]);
      if ((half & 0x7c00) == 0x7c00) return not_finite(i);
      std::memcpy(out.data() + 2 * i, &half, 2);
    } else {
      std::memcpy(out.data() + 4 * i, &values[i], 4);
    }
  }
  return out;
}

Result<std::vector<float>> decode(ByteView bytes, Codec codec) {
  const size_t size = static_cast<size_t>(bytes_per_value(codec));
  if (bytes.size() % size != 0)
    return fail(Code::kInvalidArgument, "hidden states: {} bytes are no whole number of {} values",
                bytes.size(), name(codec));
  std::vector<float> out(bytes.size() / size);
  for (size_t i = 0; i < out.size(); i++) {
    if (codec == Codec::kF16) {
      uint16_t half;
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      out[i] = half_to_float(half);
    } else {
      std::memcpy(&out[i], bytes.data() + 4 * i, 4);
    }
    if (!std::isfinite(out[i])) return not_finite(i);
  }
  return out;
}

}  // namespace meadow::swarm
