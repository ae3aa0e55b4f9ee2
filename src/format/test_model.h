// Tiny random models of the Llama family for tests: every tensor and metadata key of a real file,
// with a byte-level BPE tokenizer that can encode any text. The same options give the same bytes on
// every machine.
// Thread rule: pure functions; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/result.h"
#include "format/gguf_writer.h"

namespace meadow::format {

struct TestModelOptions {
  std::string architecture = "llama";  // "qwen2" adds biases to q, k, v; "qwen3" norms of q and k
  std::string pre = "smollm";          // tokenizer.ggml.pre
  int32_t n_blocks = 2;
  // n_embd, n_ff and n_head * head_dim are multiples of the type's block (32 or 256 values).
  int64_t n_embd = 64, n_head = 4, n_head_kv = 2, head_dim = 16, n_ff = 96, n_ctx = 512;
  DType type = DType::kF32;       // of matrices; norms, biases and factors are F32
  bool own_head = false;          // false: the head is the embedding matrix
  float rope_freq_base = 10000;   // theta
  std::vector<float> rope_freqs;  // [head_dim / 2] divisors of the frequencies (Llama 3); or empty
  std::string rope_scaling;       // rope.scaling.type, e.g. "linear"; or empty
  float rope_scaling_factor = 1;
  uint64_t seed = 1;
};

// Tokens 0 to 2 are "<|endoftext|>", "<|im_start|>" (BOS) and "<|im_end|>" (EOS), then come the 256
// bytes and the merges' results.
std::vector<std::string> test_vocabulary();

GgufWriter test_model(const TestModelOptions& options);
// The tokenizer's metadata only, as test_model writes it.
void add_test_tokenizer(GgufWriter& writer, const std::string& pre);
inline Bytes test_model_bytes(const TestModelOptions& options) {
  return test_model(options).bytes();
}
inline Result<void> write_test_model(const TestModelOptions& options, const std::string& path) {
  return test_model(options).write(path);
}

}  // namespace meadow::format
