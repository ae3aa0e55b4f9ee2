// Parses the head of a GGUF file: header, metadata, tensor directory. Everything the file says is
// checked against the file's size before it is used; the work and the memory are bounded by the
// bytes that are really there and by the limits below. Thread rule: pure functions; any thread. The
// result's views point into `source`.
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "format/metadata.h"
#include "format/model_file.h"
#include "format/source.h"

namespace meadow::format {

inline constexpr uint64_t kMaxMetadataEntries = 1 << 16;
inline constexpr uint64_t kMaxTensors = 1 << 18;
inline constexpr uint64_t kMaxKeyBytes = 65535;       // as the specification
inline constexpr uint64_t kMaxTensorNameBytes = 256;  // the specification says 64
inline constexpr int kMaxArrayDepth = 4;              // arrays of arrays
inline constexpr uint32_t kMaxDimensions = 4;
inline constexpr uint64_t kDefaultAlignment = 32;  // without general.alignment

struct GgufHead {
  uint32_t version = 0;
  uint64_t alignment = kDefaultAlignment;
  uint64_t directory_end = 0;  // offset of the first byte after the tensor directory
  std::vector<Metadata::Entry> entries;
  std::vector<TensorInfo> tensors;
};

// kCorrupt (file, offset, reason) or kUnsupported (version, byte order, type: by name).
Result<GgufHead> read_gguf_head(Source& source);

}  // namespace meadow::format
