#include "model/testing/test_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "format/ggml_types.h"
#include "format/gguf_writer.h"
#include "format/quantise.h"

namespace meadow::model::testing {
namespace {

// Sum of uniform values: near enough to normal, and without libm.
float normal(Rng& rng) {
  double sum = 0;
  for (int i = 0; i < 12; i++) sum += rng.uniform();
  return static_cast<float>(sum - 6);
}

void put_float(Bytes& out, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<uint8_t>(bits >> shift));
}

// Of variance 1 / k.
Bytes matrix_bytes(DType type, int64_t k, int64_t m, Rng& rng) {
  std::vector<float> values(static_cast<size_t>(k * m));
  const float size = 1.0f / std::sqrt(static_cast<float>(k));
  for (float& v : values) v = size * normal(rng);
  return format::quantise(type, values);
}

Bytes vector_bytes(int64_t n, float center, float spread, Rng& rng) {
  Bytes out;
  for (int64_t i = 0; i < n; i++) put_float(out, center + spread * normal(rng));
  return out;
}

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  uint32_t ggml_type;
  Bytes bytes;
};

class Builder {
 public:
  explicit Builder(const TestModel& m) : m_(m), rng_(m.seed) {}

  std::vector<Tensor> tensors() {
    matrix("token_embd.weight", m_.n_embd, m_.n_vocab);
    for (int32_t i = 0; i < m_.n_blocks; i++) block("blk." + std::to_string(i) + ".");
    if (m_.outlier != 1) set_first("blk.0.attn_norm.weight", m_.outlier);
    vector("output_norm.weight", m_.n_embd, 1, 0.2f);
    if (!m_.tied_head) matrix("output.weight", m_.n_embd, m_.n_vocab);
    if (m_.rope_factors) vector("rope_freqs.weight", m_.head_dim / 2, 2, 0.1f);
    if (!m_.extra_tensor.empty()) vector(m_.extra_tensor, m_.n_embd, 0, 1);
    for (Tensor& t : out_) spoil(t);
    std::erase_if(out_, [&](const Tensor& t) { return m_.without.contains(t.name); });
    return std::move(out_);
  }

 private:
  void matrix(const std::string& name, int64_t k, int64_t rows) {
    out_.push_back(
        {name, {k, rows}, info(m_.type).ggml_type, matrix_bytes(m_.type, k, rows, rng_)});
  }
  void vector(const std::string& name, int64_t n, float center, float spread) {
    out_.push_back({name, {n}, info(DType::kF32).ggml_type, vector_bytes(n, center, spread, rng_)});
  }
  void spoil(Tensor& t) const {
    if (t.name == m_.as_i8) {
      t.ggml_type = 24;
      t.bytes.assign(static_cast<size_t>(t.shape[0] * t.shape[1]), 0);
    }
    if (t.name == m_.corrupt) {
      const int64_t block = format::ggml_type(t.ggml_type)->block_bytes;
      std::fill_n(t.bytes.begin(), std::max<int64_t>(block, 4), 0xff);
    }
  }
  void set_first(const std::string& name, float value) {
    Bytes bytes;
    put_float(bytes, value);
    for (Tensor& t : out_)
      if (t.name == name) std::copy(bytes.begin(), bytes.end(), t.bytes.begin());
  }
  void block(const std::string& p) {
    const int64_t width = m_.head_dim * m_.n_head, kv = m_.head_dim * m_.n_head_kv;
    vector(p + "attn_norm.weight", m_.n_embd, 1, 0.2f);
    matrix(p + "attn_q.weight", m_.n_embd, width);
    matrix(p + "attn_k.weight", m_.n_embd, kv);
    matrix(p + "attn_v.weight", m_.n_embd, kv);
    matrix(p + "attn_output.weight", width, m_.n_embd);
    vector(p + "ffn_norm.weight", m_.n_embd, 1, 0.2f);
    matrix(p + "ffn_gate.weight", m_.n_embd, m_.n_ff);
    matrix(p + "ffn_up.weight", m_.n_embd, m_.n_ff);
    matrix(p + "ffn_down.weight", m_.n_ff, m_.n_embd);
    if (m_.architecture == "qwen2") {
      vector(p + "attn_q.bias", width, 0, 0.1f);
      vector(p + "attn_k.bias", kv, 0, 0.1f);
      vector(p + "attn_v.bias", kv, 0, 0.1f);
    }
    if (m_.architecture == "qwen3") {
      vector(p + "attn_q_norm.weight", m_.head_dim, 1, 0.2f);
      vector(p + "attn_k_norm.weight", m_.head_dim, 1, 0.2f);
    }
  }

  const TestModel& m_;
  Rng rng_;
  std::vector<Tensor> out_;
};

// Keys in the order of their names, which is as good as any.
void write_metadata(const TestModel& m, format::GgufWriter& file) {
  std::map<std::string, int64_t> integers = {
      {"block_count", m.n_blocks},          {"context_length", m.n_ctx},
      {"embedding_length", m.n_embd},       {"feed_forward_length", m.n_ff},
      {"attention.head_count", m.n_head},   {"attention.head_count_kv", m.n_head_kv},
      {"attention.key_length", m.head_dim}, {"attention.value_length", m.head_dim}};
  std::map<std::string, float> numbers = {{"attention.layer_norm_rms_epsilon", 1e-5f},
                                          {"rope.freq_base", 10000.0f}};
  std::map<std::string, std::string> texts = {{"general.architecture", m.architecture},
                                              {"general.name", "random"}};
  if (m.linear_scale > 0) {
    texts["rope.scaling.type"] = "linear";
    numbers["rope.scaling.factor"] = m.linear_scale;
  }
  for (const auto& [name, value] : m.integers) integers[name] = value;
  for (const auto& [name, value] : m.numbers) integers.erase(name), numbers[name] = value;
  for (const auto& [name, value] : m.texts) integers.erase(name), texts[name] = value;
  const auto add = [&](const auto& values, auto write) {
    for (const auto& [name, value] : values)
      if (!m.without.contains(name))
        write(name.starts_with("general.") ? name : m.architecture + "." + name, value);
  };
  add(integers, [&](const std::string& key, int64_t value) {
    file.add_u32(key, static_cast<uint32_t>(value));
  });
  add(numbers, [&](const std::string& key, float value) { file.add_f32(key, value); });
  add(texts,
      [&](const std::string& key, const std::string& value) { file.add_string(key, value); });
}

}  // namespace

Bytes make_gguf(const TestModel& m) {
  format::GgufWriter file;
  write_metadata(m, file);
  for (Tensor& t : Builder(m).tensors())
    file.add_tensor(t.name, t.ggml_type, t.shape, std::move(t.bytes));
  return file.bytes();
}

std::shared_ptr<format::ModelFile> make_file(const TestModel& m) {
  auto file = format::ModelFile::open(std::make_shared<format::MemorySource>(make_gguf(m)));
  MEADOW_CHECK(file.has_value());
  return *file;
}

}  // namespace meadow::model::testing
