// Where a model's bytes come from: a port with an adapter for mapped local files and one for
// memory. Every range handed out is counted by its purpose, so that "a server reads only its own
// blocks" is a number and not a hope. Thread rule: all methods of a Source may be called from any
// thread. Ownership: a view is valid as long as its Source lives; a Source owns its file or bytes.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace meadow::format {

// Why bytes are read.
enum class Purpose { kMetadata, kFingerprint, kWeights };
inline constexpr int kPurposes = 3;

// A set of bytes of a file, kept as disjoint ranges. Not synchronised.
class RangeSet {
 public:
  // Adds [begin, end); what is there already is not counted again.
  void add(uint64_t begin, uint64_t end);
  uint64_t bytes() const { return bytes_; }

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin -> end, disjoint, not touching
  uint64_t bytes_ = 0;
};

class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // What errors call it: a path or an address.
  virtual std::string name() const = 0;
  // Bytes in all; constant for the life of the Source.
  virtual uint64_t size() const = 0;

  // The bytes [offset, offset + length), counted under `purpose`. kCorrupt if the range is not
  // inside the source. May block on the disk (pages are read when they are used).
  Result<ByteView> view(uint64_t offset, uint64_t length, Purpose purpose);

  // Unique bytes handed out for `purpose` so far.
  uint64_t touched(Purpose purpose) const;

 private:
  // The range is inside [0, size()) when this is called.
  virtual Result<ByteView> read(uint64_t offset, uint64_t length) = 0;

  mutable std::mutex mutex_;
  std::array<RangeSet, kPurposes> touched_;  // guarded by mutex_
};

// A regular local file, mapped read-only as a whole. A file that has changed its size or its time
// of modification since it was opened is refused (kCorrupt) when the next range is asked for. A
// file cut short while a range already handed out is in use ends the process (SIGBUS), as with
// every mapped file: replace models by renaming, never by writing into them.
class FileSource final : public Source {
 public:
  // kNotFound, kPermissionDenied, kInvalidArgument (a folder, a pipe), kCorrupt (empty),
  // kResourceExhausted (cannot be mapped).
  static Result<std::shared_ptr<FileSource>> open(const std::string& path);
  ~FileSource() override;

  std::string name() const override { return path_; }
  uint64_t size() const override { return size_; }

 private:
  FileSource() = default;
  Result<ByteView> read(uint64_t offset, uint64_t length) override;

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  int64_t modified_ns_ = 0;
  const uint8_t* data_ = nullptr;
};

// Bytes in memory: the fake for tests.
class MemorySource final : public Source {
 public:
  explicit MemorySource(Bytes data, std::string name = "memory")
      : data_(std::move(data)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  uint64_t size() const override { return data_.size(); }

 private:
  Result<ByteView> read(uint64_t offset, uint64_t length) override {
    return ByteView(data_).subspan(offset, length);
  }

  const Bytes data_;
  const std::string name_;
};

}  // namespace meadow::format
