// The model file reader on any bytes: whatever opens must keep every promise of
// format/model_file.h.
#include "format/exercise.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)meadow::format::exercise(meadow::Bytes(data, data + size));
  return 0;
}
