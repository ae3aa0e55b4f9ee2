#include "client/process_memory.h"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace meadow::client {

ProcessMemory process_memory() {
  ProcessMemory memory;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    memory.peak_resident_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    uint64_t kib = 0;
    if (key == "RssAnon:" && status >> kib) memory.private_bytes = kib * 1024;
  }
  return memory;
}

}  // namespace meadow::client
