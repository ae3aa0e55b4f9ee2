// The numbers that define a model, read from the metadata of its file and checked.
// Thread rule: values and pure functions.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"
#include "compute/ops.h"
#include "format/model_file.h"

namespace meadow::model {

struct Hyperparameters {
  std::string architecture;  // as in general.architecture, e.g. "llama"
  int32_t n_blocks = 0;
  int64_t n_embd = 0;     // width of the residual stream
  int64_t n_head = 0;     // query heads, a multiple of n_head_kv
  int64_t n_head_kv = 0;  // key and value heads
  int64_t head_dim = 0;   // values of one head
  int64_t n_ff = 0;       // width inside the feed-forward part
  int64_t n_vocab = 0;
  int64_t n_ctx = 0;  // positions that a session may have
  float norm_epsilon = 0;
  float attention_scale = 0;  // what q·k is multiplied by
  int64_t n_rot = 0;          // leading values of a head that are rotated
  compute::RopeStyle rope_style = compute::RopeStyle::kNeighbours;
  float rope_base = 0;
  float rope_scale = 1;    // positions are divided by it (linear scaling)
  bool tied_head = false;  // the head is the embedding matrix
};

// Limits that keep every product of two of these far from overflow.
inline constexpr int64_t kMaxBlocks = 4096;
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxContext = int64_t{1} << 20;
inline constexpr int64_t kMaxVocab = int64_t{1} << 24;

// Reads metadata and directory, no weights. kUnsupported names an architecture or feature that is
// not in this version, with what is; kCorrupt a key that is missing, of another type, or
// impossible.
Result<Hyperparameters> hyperparameters(const format::ModelFile& file);

}  // namespace meadow::model
