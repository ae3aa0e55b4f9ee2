// What `meadow inspect` says of a model file: sizes, hyperparameters, tensors by type, bytes per
// block, fingerprint. Nothing in the file is trusted: control bytes are escaped, long values cut.
// Thread rule: pure functions; any thread. Reads the fingerprint's samples; with block hashes, the
// whole of every block (blocks on the disk).
#pragma once
#include <string>

#include "base/result.h"
#include "format/model_file.h"

namespace meadow::format {

// Text for people, several lines. Fails only if the source does.
Result<std::string> describe(const ModelFile& file, bool block_hashes = false);

// One JSON object: file, file_bytes, gguf_version, alignment, architecture, supported (every
// element type is one that Meadow computes with), fingerprint, metadata {key: value, long arrays as
// {type, count}}, types [{type, supported, tensors, bytes}], blocks [{block, tensors, bytes,
// hash}], other_bytes (tensors of no block).
Result<std::string> describe_json(const ModelFile& file, bool block_hashes = false);

}  // namespace meadow::format
