// Bytes of a stranger as hidden states in each codec: what is accepted is finite, has the size that
// was asked for, and survives another trip (q8: within half a step).
#include <cmath>

#include "base/check.h"
#include "swarm/hidden_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace meadow;
  using namespace meadow::swarm;
  if (size == 0) return 0;
  const int64_t width = data[0];  // 0: one position
  const ByteView bytes(data + 1, size - 1);
  for (const Codec codec : {Codec::kF32, Codec::kF16, Codec::kQ8}) {
    const auto values = decode(bytes, codec, width);
    if (!values) continue;
    for (const float v : *values) MEADOW_CHECK(std::isfinite(v));
    if (width > 0)
      MEADOW_CHECK(static_cast<int64_t>(bytes.size()) ==
                   static_cast<int64_t>(values->size()) / width * bytes_per_position(width, codec));
    const auto again = encode(*values, codec, width);
    if (codec != Codec::kQ8)
      MEADOW_CHECK(again.has_value());
    else if (again)
      MEADOW_CHECK(again->size() == bytes.size());
  }
  return 0;
}
