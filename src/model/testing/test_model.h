// Small random models as GGUF bytes in memory, for tests: every supported architecture and weight
// type, whole or damaged where a test says so. Without a tokenizer; format/test_model.h makes
// models with one.
// Thread rule: pure functions.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/bytes.h"
#include "base/dtype.h"
#include "format/model_file.h"

namespace meadow::model::testing {

struct TestModel {
  std::string architecture = "llama";  // llama, qwen2 or qwen3
  // Of matrices; norms and biases are F32. Its block divides n_embd, n_ff and head_dim · n_head.
  DType type = DType::kQ4_1;
  int32_t n_blocks = 4;
  int64_t n_embd = 64, n_ff = 96;
  int64_t n_head = 4, n_head_kv = 2, head_dim = 32;
  int64_t n_vocab = 100, n_ctx = 512;
  bool tied_head = false;
  float linear_scale = 0;     // > 0: rope.scaling.type linear
  bool rope_factors = false;  // a tensor rope_freqs.weight
  // First weight of block 0's first norm: with 1e38, an input with a large value 0 overflows.
  float outlier = 1;
  uint64_t seed = 1;

  // What makes it wrong. Keys without the architecture's prefix; names of tensors in full.
  std::map<std::string, int64_t> integers;   // u32 keys set or added
  std::map<std::string, float> numbers;      // f32 keys
  std::map<std::string, std::string> texts;  // string keys
  std::set<std::string> without;             // keys and tensors left out
  std::string extra_tensor;                  // an F32 vector of n_embd more
  std::string as_i8;                         // this matrix in a type that is not supported
  std::string corrupt;                       // this tensor's first block is bytes 0xff
};

Bytes make_gguf(const TestModel& model);
// The same, opened.
std::shared_ptr<format::ModelFile> make_file(const TestModel& model);

}  // namespace meadow::model::testing
