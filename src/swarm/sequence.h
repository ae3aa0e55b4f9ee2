// The counter of a key's leases, kept beside the identity so that it grows across restarts.
// Thread rule: any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"

namespace meadow::swarm {

class SequenceStore {
 public:
  virtual ~SequenceStore() = default;
  // A number greater than all before, also by earlier processes. May block on the disk.
  virtual Result<uint64_t> next() = 0;
  // next() will be greater than `seen` (the swarm remembers more than the file).
  virtual void raise(uint64_t seen) = 0;
};

// A file that holds, in decimal, a bound that no number given out has reached; numbers are reserved
// a thousand at a time, so that a lease costs no write.
class FileSequenceStore final : public SequenceStore {
 public:
  // Reads `path`, or begins at 1 if there is no such file. kCorrupt if it holds anything else than
  // a number; kFailedPrecondition if another process (or object) has it open: one key, one process.
  // Holds the lock file `path`.lock until destroyed. Blocks on the disk.
  static Result<std::unique_ptr<FileSequenceStore>> open(const std::string& path);
  ~FileSequenceStore() override;
  FileSequenceStore(const FileSequenceStore&) = delete;
  FileSequenceStore& operator=(const FileSequenceStore&) = delete;
  Result<uint64_t> next() override;
  void raise(uint64_t seen) override;

 private:
  FileSequenceStore(std::string path, uint64_t bound, int lock);
  static Result<uint64_t> read_bound(const std::string& path);
  std::mutex mutex_;
  std::string path_;
  int lock_;           // descriptor of the lock file
  uint64_t next_;      // to be given out
  uint64_t reserved_;  // stored bound: next_ < reserved_ needs no write
};

// Of this process only: tests, and members that announce nothing.
class MemorySequenceStore final : public SequenceStore {
 public:
  Result<uint64_t> next() override;
  void raise(uint64_t seen) override;

 private:
  std::mutex mutex_;
  uint64_t last_ = 0;
};

}  // namespace meadow::swarm
