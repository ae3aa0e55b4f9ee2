#include "format/test_model.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "base/rng.h"
#include "format/quantise.h"

namespace meadow::format {
namespace {

constexpr std::string_view kSpecial[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
constexpr int32_t kNormalToken = 1, kControlToken = 3;

// "Ġ" stands for a space in byte-level BPE. Each merge's parts are bytes or earlier results.
constexpr std::pair<std::string_view, std::string_view> kMerges[] = {
    {"Ġ", "t"},   {"Ġ", "a"},    {"i", "n"},  {"h", "e"}, {"Ġ", "Ġ"},   {"r", "e"},   {"o", "n"},
    {"Ġt", "he"}, {"a", "t"},    {"Ġ", "s"},  {"Ġ", "o"}, {"e", "n"},   {"Ġ", "w"},   {"e", "r"},
    {"i", "s"},   {"o", "r"},    {"a", "n"},  {"Ġ", "f"}, {"Ġa", "n"},  {"Ġan", "d"}, {"in", "g"},
    {"e", "s"},   {"Ġ", "in"},   {"Ġo", "f"}, {"l", "l"}, {"o", "u"},   {"Ġ", "m"},   {"e", "d"},
    {"Ġt", "o"},  {"ĠĠ", "ĠĠ"},  {"s", "t"},  {"Ġ", "h"}, {"Ġh", "e"},  {"l", "o"},   {"H", "e"},
    {"He", "ll"}, {"Hell", "o"}, {"w", "or"}, {"l", "d"}, {"Ġw", "or"}, {"Ã", "©"}};

constexpr std::string_view kChatTemplate =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}";

// UTF-8 of the character that stands for a byte in byte-level BPE (GPT-2's table): printable
// Latin-1 is itself, the other bytes follow from U+0100 on.
std::string byte_character(int byte) {
  const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b != 173); };
  int point = byte;
  if (!printable(byte)) {
    point = 256;
    for (int b = 0; b < byte; b++) point += !printable(b);
  }
  if (point < 0x80) return std::string(1, static_cast<char>(point));
  return {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
}

class Maker {
 public:
  explicit Maker(const TestModelOptions& options) : options_(options), rng_(options.seed) {}

  // Uniform with variance 1 / k, rows of k values.
  void matrix(const std::string& name, int64_t k, int64_t m) {
    const double width = std::sqrt(3.0 / static_cast<double>(k));
    add(name, options_.type, {k, m}, [&] { return (2 * rng_.uniform() - 1) * width; });
  }
  void norm(const std::string& name, int64_t size) {
    add(name, DType::kF32, {size}, [&] { return 0.75 + 0.5 * rng_.uniform(); });
  }
  void bias(const std::string& name, int64_t size) {
    add(name, DType::kF32, {size}, [&] { return 0.4 * rng_.uniform() - 0.2; });
  }

  void metadata();
  void block(int32_t index);
  void ends();
  GgufWriter take() { return std::move(writer_); }

 private:
  template <class Draw>
  void add(const std::string& name, DType type, const std::vector<int64_t>& shape, Draw draw) {
    std::vector<float> values(
        static_cast<size_t>(shape.size() == 1 ? shape[0] : shape[0] * shape[1]));
    for (float& value : values) value = static_cast<float>(draw());
    writer_.add_tensor(name, info(type).ggml_type, shape, quantise(type, values));
  }

  TestModelOptions options_;
  Rng rng_;
  GgufWriter writer_;
};

void Maker::metadata() {
  const TestModelOptions& o = options_;
  const auto key = [&](std::string_view rest) {
    return fmt::format("{}.{}", o.architecture, rest);
  };
  const auto u32 = [&](std::string_view rest, int64_t value) {
    writer_.add_u32(key(rest), static_cast<uint32_t>(value));
  };
  writer_.add_string("general.architecture", o.architecture);
  writer_.add_string("general.name", fmt::format("test {} {}", o.architecture, info(o.type).name));
  u32("block_count", o.n_blocks);
  u32("context_length", o.n_ctx);
  u32("embedding_length", o.n_embd);
  u32("feed_forward_length", o.n_ff);
  u32("attention.head_count", o.n_head);
  u32("attention.head_count_kv", o.n_head_kv);
  u32("vocab_size", static_cast<int64_t>(test_vocabulary().size()));
  writer_.add_f32(key("attention.layer_norm_rms_epsilon"), 1e-5f);
  writer_.add_f32(key("rope.freq_base"), o.rope_freq_base);
  if (o.architecture == "llama") u32("rope.dimension_count", o.head_dim);
  if (o.architecture == "qwen3" || o.head_dim * o.n_head != o.n_embd) {
    u32("attention.key_length", o.head_dim);
    u32("attention.value_length", o.head_dim);
  }
  if (!o.rope_scaling.empty()) {
    writer_.add_string(key("rope.scaling.type"), o.rope_scaling);
    writer_.add_f32(key("rope.scaling.factor"), o.rope_scaling_factor);
  }
  add_test_tokenizer(writer_, o.pre);
}

void Maker::block(int32_t index) {
  const TestModelOptions& o = options_;
  const auto name = [&](std::string_view rest) { return fmt::format("blk.{}.{}", index, rest); };
  const int64_t q = o.n_head * o.head_dim, kv = o.n_head_kv * o.head_dim;
  norm(name("attn_norm.weight"), o.n_embd);
  matrix(name("attn_q.weight"), o.n_embd, q);
  matrix(name("attn_k.weight"), o.n_embd, kv);
  matrix(name("attn_v.weight"), o.n_embd, kv);
  matrix(name("attn_output.weight"), q, o.n_embd);
  if (o.architecture == "qwen2") {
    bias(name("attn_q.bias"), q);
    bias(name("attn_k.bias"), kv);
    bias(name("attn_v.bias"), kv);
  }
  if (o.architecture == "qwen3") {
    norm(name("attn_q_norm.weight"), o.head_dim);
    norm(name("attn_k_norm.weight"), o.head_dim);
  }
  norm(name("ffn_norm.weight"), o.n_embd);
  matrix(name("ffn_gate.weight"), o.n_embd, o.n_ff);
  matrix(name("ffn_up.weight"), o.n_embd, o.n_ff);
  matrix(name("ffn_down.weight"), o.n_ff, o.n_embd);
}

void Maker::ends() {
  const TestModelOptions& o = options_;
  const auto n_vocab = static_cast<int64_t>(test_vocabulary().size());
  matrix("token_embd.weight", o.n_embd, n_vocab);
  norm("output_norm.weight", o.n_embd);
  if (o.own_head) matrix("output.weight", o.n_embd, n_vocab);
  if (!o.rope_freqs.empty()) {
    const int64_t size = static_cast<int64_t>(o.rope_freqs.size());
    writer_.add_tensor("rope_freqs.weight", info(DType::kF32).ggml_type, std::span(&size, 1),
                       quantise(DType::kF32, o.rope_freqs));
  }
}

}  // namespace

std::vector<std::string> test_vocabulary() {
  std::vector<std::string> tokens(std::begin(kSpecial), std::end(kSpecial));
  for (int byte = 0; byte < 256; byte++) tokens.push_back(byte_character(byte));
  for (const auto& [left, right] : kMerges) tokens.push_back(fmt::format("{}{}", left, right));
  return tokens;
}

void add_test_tokenizer(GgufWriter& writer, const std::string& pre) {
  const std::vector<std::string> tokens = test_vocabulary();
  std::vector<int32_t> types(tokens.size(), kNormalToken);
  std::fill_n(types.begin(), std::size(kSpecial), kControlToken);
  std::vector<std::string> merges;
  for (const auto& [left, right] : kMerges) merges.push_back(fmt::format("{} {}", left, right));
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", pre);
  writer.add_strings("tokenizer.ggml.tokens", tokens);
  writer.add_i32s("tokenizer.ggml.token_type", types);
  writer.add_strings("tokenizer.ggml.merges", merges);
  writer.add_u32("tokenizer.ggml.bos_token_id", 1);
  writer.add_u32("tokenizer.ggml.eos_token_id", 2);
  writer.add_bool("tokenizer.ggml.add_bos_token", false);
  writer.add_string("tokenizer.chat_template", kChatTemplate);
}

GgufWriter test_model(const TestModelOptions& options) {
  Maker maker(options);
  maker.metadata();
  maker.ends();
  for (int32_t index = 0; index < options.n_blocks; index++) maker.block(index);
  return maker.take();
}

}  // namespace meadow::format
