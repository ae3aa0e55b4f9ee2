#include "swarm/state_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace meadow::swarm {

Result<void> replace_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + "." + std::to_string(getpid()) + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    return fail(Code::kUnavailable, "cannot write {}: {}; is its folder writable?", path,
                strerror(errno));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(fd) == 0;
  ::close(fd);
  if (written && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const int error = errno;
  ::unlink(temporary.c_str());
  return fail(Code::kUnavailable, "cannot write {}: {}", path, strerror(error));
}

}  // namespace meadow::swarm
