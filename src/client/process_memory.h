// How much memory this process has used: for --stats and tests.
// Thread rule: any thread.
#pragma once
#include <cstdint>

namespace meadow::client {

struct ProcessMemory {
  uint64_t peak_resident_bytes = 0;  // with mapped files
  uint64_t private_bytes = 0;        // now, without mapped files; 0 where the system does not say
};
ProcessMemory process_memory();

}  // namespace meadow::client
