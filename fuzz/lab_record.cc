// Bytes of anybody as the record of a running lab: what is accepted is written the same way again.
#include "base/check.h"
#include "lab/record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace meadow;
  const auto record = lab::parse_record({reinterpret_cast<const char*>(data), size});
  if (!record) return 0;
  const auto again = lab::parse_record(lab::to_text(*record));
  MEADOW_CHECK(again && lab::to_text(*again) == lab::to_text(*record));
  return 0;
}
