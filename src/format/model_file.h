// A model file (GGUF version 2 or 3, little-endian), opened and checked: its metadata, the
// directory of its tensors, and their bytes where they lie. Opening reads the metadata and the
// directory only; a tensor's bytes count as touched when data() or block_hash() hands them out.
// Thread rule: any thread; immutable but for the cached digests, which have their own lock.
// Ownership: owns its Source. Views, TensorInfo pointers and metadata live as long as the
// ModelFile.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/types.h"
#include "format/metadata.h"
#include "format/source.h"

namespace meadow::format {

// Bytes of each tensor's start that the fingerprint covers.
inline constexpr uint64_t kFingerprintSampleBytes = 4096;

struct TensorInfo {
  std::string name;
  uint32_t ggml_type =
      0;  // one that ggml_types.h knows; dtype_of says whether Meadow computes with it
  std::vector<int64_t> shape;  // 1 to 4 sizes, each > 0, fastest first
  uint64_t offset = 0;         // from the start of the file
  uint64_t bytes = 0;          // shape and type say so; inside the file
};

class ModelFile {
 public:
  // kCorrupt with file, offset and reason for malformed bytes; kUnsupported for a version, byte
  // order or element type that is named but not readable; FileSource::open's errors for the path.
  static Result<std::shared_ptr<ModelFile>> open(const std::string& path);
  static Result<std::shared_ptr<ModelFile>> open(std::shared_ptr<Source> source);

  std::string name() const { return source_->name(); }
  uint64_t file_bytes() const { return source_->size(); }
  uint32_t version() const { return version_; }      // 2 or 3
  uint64_t alignment() const { return alignment_; }  // bytes; a power of two

  const Metadata& metadata() const { return metadata_; }
  // In the file's order.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  // nullptr if there is none of that name.
  const TensorInfo* find(std::string_view name) const;
  // kCorrupt if there is none of that name.
  Result<const TensorInfo*> tensor(std::string_view name) const;
  // The type as Meadow computes with it; kUnsupported names tensor, type and the supported types.
  Result<DType> dtype_of(const TensorInfo& tensor) const;

  // The tensor's bytes, counted as touched weights. Fails only if the source does.
  Result<ByteView> data(const TensorInfo& tensor) const;

  // SHA-256 over the file's bytes up to the end of the tensor directory (header, metadata,
  // directory) and then the first 4 KiB of every tensor in the directory's order. Computed once.
  Result<Digest> fingerprint() const;
  // SHA-256 over name, type, shape and bytes of every tensor "blk.<block>.*", in order of names:
  // what a server's lease says of a block. Reads the whole block, once; kNotFound without such
  // tensors.
  Result<Digest> block_hash(int32_t block) const;

  // Unique bytes of tensors handed out so far by data() and block_hash().
  uint64_t weight_bytes_touched() const { return source_->touched(Purpose::kWeights); }
  const Source& source() const { return *source_; }

 private:
  ModelFile() = default;

  std::shared_ptr<Source> source_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 0;
  uint64_t directory_end_ = 0;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, size_t> by_name_;

  mutable std::mutex mutex_;
  mutable std::optional<Digest> fingerprint_;       // guarded by mutex_
  mutable std::map<int32_t, Digest> block_hashes_;  // guarded by mutex_
};

// The block that a tensor of this name belongs to ("blk.12.attn_q.weight" -> 12), or nullopt.
std::optional<int32_t> block_of(std::string_view tensor_name);

}  // namespace meadow::format
