#include "meadow/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace meadow::apps {
namespace {

namespace fs = std::filesystem;

// 0 or the error's number.
int write_to(const std::string& path, int flags, std::string_view text, bool sync) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (fd < 0) return errno;
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n > 0)
      text.remove_prefix(static_cast<size_t>(n));
    else if (n < 0 && errno != EINTR)
      error = errno;
  }
  if (error == 0 && sync && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

Error system_error(std::string_view what, int error_number) {
  Code code = Code::kInternal;
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      code = Code::kResourceExhausted;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = Code::kPermissionDenied;
      break;
    case ENOENT:
    case ENOTDIR:
      code = Code::kNotFound;
      break;
    default:
      break;
  }
  return {code, fmt::format("{}: {}", what, std::strerror(error_number))};
}

Result<void> check_can_write(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || path.ends_with('/') || fs::is_directory(path, ignored))
    return fail(Code::kInvalidArgument, "cannot write to '{}': it names a folder, not a file",
                path);
  const fs::path folder = folder_of(path);
  if (!fs::is_directory(folder, ignored))
    return fail(Code::kNotFound, "cannot write {}: there is no folder {}", path, folder.string());
  // A plain file is replaced, which takes the folder's permission; else it is opened as it is.
  const bool special = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  const std::string asked = special ? path : folder.string();
  if (::access(asked.c_str(), special ? W_OK : W_OK | X_OK) != 0)
    return fail(system_error("cannot write " + path, errno));
  return {};
}

Result<void> write_whole(const std::string& path, std::string_view text) {
  MEADOW_TRY_VOID(check_can_write(path));
  std::error_code ignored;
  std::string target = path;
  if (fs::exists(path, ignored)) {
    if (!fs::is_regular_file(path, ignored)) {
      if (const int error = write_to(path, 0, text, false); error != 0)
        return fail(system_error("cannot write " + path, error));
      return {};
    }
    // Through a link to the file itself: a link is not to be replaced.
    if (const fs::path real = fs::canonical(path, ignored); !real.empty()) target = real.string();
  }
  const std::string part = fmt::format("{}.part-{}", target, ::getpid());
  int error = write_to(part, O_CREAT | O_TRUNC, text, true);
  if (error == 0 && ::rename(part.c_str(), target.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(part.c_str());
  return fail(system_error("cannot write " + path, error));
}

}  // namespace meadow::apps
