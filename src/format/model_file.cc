#include "format/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/bytes.h"
#include "format/ggml_types.h"
#include "format/gguf_reader.h"

namespace meadow::format {
namespace {

void hash_head(Sha256& hash, const TensorInfo& tensor) {
  hash.update_u64(tensor.name.size());
  hash.update(tensor.name);
  hash.update_u64(tensor.ggml_type);
  hash.update_u64(tensor.shape.size());
  for (const int64_t size : tensor.shape) hash.update_u64(static_cast<uint64_t>(size));
  hash.update_u64(tensor.bytes);
}

}  // namespace

std::optional<int32_t> block_of(std::string_view tensor_name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!tensor_name.starts_with(kPrefix)) return std::nullopt;
  const char* begin = tensor_name.data() + kPrefix.size();
  const char* end = tensor_name.data() + tensor_name.size();
  uint32_t block = 0;
  const auto [stop, error] = std::from_chars(begin, end, block);
  if (error != std::errc() || stop == end || *stop != '.' || block > INT32_MAX) return std::nullopt;
  if (*begin == '0' && stop - begin > 1) return std::nullopt;  // "blk.01." is no block's name
  return static_cast<int32_t>(block);
}

Result<std::shared_ptr<ModelFile>> ModelFile::open(const std::string& path) {
  MEADOW_TRY(std::shared_ptr<FileSource> source, FileSource::open(path));
  return open(std::move(source));
}

Result<std::shared_ptr<ModelFile>> ModelFile::open(std::shared_ptr<Source> source) {
  MEADOW_TRY(GgufHead head, read_gguf_head(*source));
  std::shared_ptr<ModelFile> file(new ModelFile);
  file->version_ = head.version;
  file->alignment_ = head.alignment;
  file->directory_end_ = head.directory_end;
  file->metadata_ = Metadata(source->name(), std::move(head.entries));
  file->tensors_ = std::move(head.tensors);
  for (size_t i = 0; i < file->tensors_.size(); i++)
    file->by_name_.emplace(file->tensors_[i].name, i);
  file->source_ = std::move(source);
  return file;
}

const TensorInfo* ModelFile::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

Result<const TensorInfo*> ModelFile::tensor(std::string_view name) const {
  const TensorInfo* found = find(name);
  if (found == nullptr)
    return fail(Code::kCorrupt, "{}: the model has no tensor {}", source_->name(), in_quotes(name));
  return found;
}

Result<DType> ModelFile::dtype_of(const TensorInfo& tensor) const {
  if (const auto type = dtype_of_ggml(tensor.ggml_type)) return *type;
  return fail(Code::kUnsupported,
              "{}: tensor {} is {}; this version computes with {}: quantise the "
              "model to one of these",
              source_->name(), in_quotes(tensor.name), ggml_type_name(tensor.ggml_type),
              supported_type_names());
}

Result<ByteView> ModelFile::data(const TensorInfo& tensor) const {
  return source_->view(tensor.offset, tensor.bytes, Purpose::kWeights);
}

Result<Digest> ModelFile::fingerprint() const {
  const std::lock_guard lock(mutex_);
  if (fingerprint_) return *fingerprint_;
  Sha256 hash;
  MEADOW_TRY(const ByteView head, source_->view(0, directory_end_, Purpose::kMetadata));
  hash.update(head);
  for (const TensorInfo& tensor : tensors_) {
    const uint64_t length = std::min(tensor.bytes, kFingerprintSampleBytes);
    MEADOW_TRY(const ByteView start, source_->view(tensor.offset, length, Purpose::kFingerprint));
    hash.update(start);
  }
  fingerprint_ = hash.finish();
  return *fingerprint_;
}

Result<Digest> ModelFile::block_hash(int32_t block) const {
  const std::lock_guard lock(mutex_);
  if (const auto known = block_hashes_.find(block); known != block_hashes_.end())
    return known->second;
  // by_name_ is in order of names, so the tensors of a block stand together.
  const std::string prefix = fmt::format("blk.{}.", block);
  Sha256 hash;
  auto at = by_name_.lower_bound(prefix);
  if (at == by_name_.end() || !at->first.starts_with(prefix))
    return fail(Code::kNotFound, "{}: the model has no block {}", source_->name(), block);
  for (; at != by_name_.end() && at->first.starts_with(prefix); ++at) {
    const TensorInfo& tensor = tensors_[at->second];
    hash_head(hash, tensor);
    MEADOW_TRY(const ByteView bytes, data(tensor));
    hash.update(bytes);
  }
  return block_hashes_[block] = hash.finish();
}

}  // namespace meadow::format
