#include "format/source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace meadow::format {
namespace {

int64_t modified_ns(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

Code code_of_errno(int error) {
  if (error == ENOENT || error == ENOTDIR) return Code::kNotFound;
  if (error == EACCES || error == EPERM) return Code::kPermissionDenied;
  return error == ENOMEM || error == EMFILE ? Code::kResourceExhausted : Code::kInternal;
}

}  // namespace

void RangeSet::add(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin() && std::prev(next)->second >= begin) --next;
  while (next != ranges_.end() && next->first <= end) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    bytes_ -= next->second - next->first;
    next = ranges_.erase(next);
  }
  ranges_.emplace(begin, end);
  bytes_ += end - begin;
}

Result<ByteView> Source::view(uint64_t offset, uint64_t length, Purpose purpose) {
  if (offset > size() || length > size() - offset)
    return fail(Code::kCorrupt, "{}: offset {}: {} bytes are needed, the file ends at {}", name(),
                offset, length, size());
  MEADOW_TRY(const ByteView bytes, read(offset, length));
  const std::lock_guard lock(mutex_);
  touched_[static_cast<size_t>(purpose)].add(offset, offset + length);
  return bytes;
}

uint64_t Source::touched(Purpose purpose) const {
  const std::lock_guard lock(mutex_);
  return touched_[static_cast<size_t>(purpose)].bytes();
}

Result<std::shared_ptr<FileSource>> FileSource::open(const std::string& path) {
  std::shared_ptr<FileSource> file(new FileSource);
  file->path_ = path;
  // Without O_NONBLOCK the open of a pipe would wait for its writer.
  file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->descriptor_ < 0)
    return fail(code_of_errno(errno), "{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat info;
  if (::fstat(file->descriptor_, &info) != 0)
    return fail(Code::kInternal, "{}: cannot be examined: {}", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return fail(Code::kInvalidArgument, "{}: expected a file, this is a {}", path,
                S_ISDIR(info.st_mode) ? "folder" : "device or pipe");
  if (info.st_size == 0) return fail(Code::kCorrupt, "{}: the file is empty", path);
  file->size_ = static_cast<uint64_t>(info.st_size);
  file->modified_ns_ = modified_ns(info);
  void* mapped = ::mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, file->descriptor_, 0);
  if (mapped == MAP_FAILED)
    return fail(Code::kResourceExhausted, "{}: cannot map {} bytes: {}", path, file->size_,
                std::strerror(errno));
  file->data_ = static_cast<const uint8_t*>(mapped);
  return file;
}

FileSource::~FileSource() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<ByteView> FileSource::read(uint64_t offset, uint64_t length) {
  struct stat info;
  if (::fstat(descriptor_, &info) != 0)
    return fail(Code::kInternal, "{}: cannot be examined: {}", path_, std::strerror(errno));
  if (static_cast<uint64_t>(info.st_size) != size_ || modified_ns(info) != modified_ns_)
    return fail(Code::kCorrupt,
                "{}: the file was changed while in use ({} bytes before, {} now); "
                "start again",
                path_, size_, info.st_size);
  return ByteView(data_ + offset, length);
}

}  // namespace meadow::format
