#include "swarm/sequence.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "swarm/lease.h"
#include "swarm/state_file.h"

namespace meadow::swarm {
namespace {

constexpr uint64_t kReserve = 1000;

// Two processes with one identity would withdraw each other's leases for ever.
Result<int> lock_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return fail(Code::kUnavailable, "cannot open {}: {}; is its folder writable?", path,
                strerror(errno));
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int error = errno;
  ::close(fd);
  if (error == EWOULDBLOCK)
    return fail(Code::kFailedPrecondition,
                "this identity is in use by another process ({} is locked); stop that one, or give "
                "this one another identity",
                path);
  return fail(Code::kUnavailable, "cannot lock {}: {}", path, strerror(error));
}

}  // namespace

FileSequenceStore::FileSequenceStore(std::string path, uint64_t bound, int lock)
    : path_(std::move(path)), lock_(lock), next_(bound), reserved_(bound) {}

FileSequenceStore::~FileSequenceStore() { ::close(lock_); }

Result<std::unique_ptr<FileSequenceStore>> FileSequenceStore::open(const std::string& path) {
  MEADOW_TRY(const int lock, lock_file(path + ".lock"));
  Result<uint64_t> bound = read_bound(path);
  if (!bound) {
    ::close(lock);
    return fail(std::move(bound).error());
  }
  return std::unique_ptr<FileSequenceStore>(new FileSequenceStore(path, *bound, lock));
}

Result<uint64_t> FileSequenceStore::read_bound(const std::string& path) {
  uint64_t bound = 1;
  std::ifstream in(path, std::ios::binary);
  if (in) {
    std::string text(64, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(in.gcount()));
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bound);
    const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
    if (error != std::errc() || (!rest.empty() && rest != "\n") || bound == 0 ||
        bound > kMaxSequence)
      return fail(Code::kCorrupt,
                  "{}: expected one number from 1 to {}; remove the file, the swarm tells the "
                  "number again",
                  path, kMaxSequence);
  }
  return bound;
}

Result<uint64_t> FileSequenceStore::next() {
  const std::lock_guard lock(mutex_);
  if (next_ >= kMaxSequence)
    return fail(Code::kResourceExhausted, "{}: all numbers are used up", path_);
  if (next_ >= reserved_) {
    const uint64_t bound = std::min(next_ + kReserve, kMaxSequence);
    MEADOW_TRY_VOID(replace_file(path_, fmt::format("{}\n", bound)));
    reserved_ = bound;
  }
  return next_++;
}

void FileSequenceStore::raise(uint64_t seen) {
  const std::lock_guard lock(mutex_);
  next_ = std::max(next_, seen + 1);
}

Result<uint64_t> MemorySequenceStore::next() {
  const std::lock_guard lock(mutex_);
  return ++last_;
}

void MemorySequenceStore::raise(uint64_t seen) {
  const std::lock_guard lock(mutex_);
  last_ = std::max(last_, seen);
}

}  // namespace meadow::swarm
