// Bytes of a stranger as a model: loading and running it is an error or gives finite logits.
#include "engine/exercise.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)meadow::engine::exercise(meadow::Bytes(data, data + size));
  return 0;
}
