// Bytes of anybody as a lab file: never out of bounds, and what is accepted is within its limits.
#include "lab/lab_file.h"

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace meadow;
  const auto file = lab::parse_lab({reinterpret_cast<const char*>(data), size});
  if (!file) return 0;
  MEADOW_CHECK(!file->hosts.empty() && file->hosts.size() <= lab::kMaxHosts);
  MEADOW_CHECK(file->links.size() <= lab::kMaxLinks);
  for (size_t a = 0; a < file->hosts.size(); a++)
    for (size_t b = 0; b < file->hosts.size(); b++) {
      const lab::LinkShape link = file->link(a, b);
      MEADOW_CHECK(link.rtt >= Duration::zero() && link.rtt <= lab::kMaxRtt);
      MEADOW_CHECK(link.jitter >= Duration::zero() && link.jitter <= lab::kMaxRtt);
      MEADOW_CHECK(link.loss >= 0 && link.loss <= 1);
      MEADOW_CHECK(link.rate >= 0 && link.rate <= lab::kMaxRate);
      MEADOW_CHECK(link == file->link(b, a));
    }
  return 0;
}
