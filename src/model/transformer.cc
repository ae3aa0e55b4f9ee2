#include "model/transformer.h"

#include <cmath>

namespace meadow::model {
namespace {

Result<void> read_rope(const Keys& keys, Hyperparameters& h) {
  MEADOW_TRY(h.n_rot, keys.count_or("rope.dimension_count", kMaxWidth, h.head_dim));
  if (h.n_rot % 2 != 0 || h.n_rot > h.head_dim)
    return fail(Code::kCorrupt, "{}.rope.dimension_count is {}; expected an even number up to {}",
                keys.architecture(), h.n_rot, h.head_dim);
  MEADOW_TRY(h.rope_base, keys.positive_or("rope.freq_base", 10000.0f));
  if (h.rope_base < 1.0f)
    return fail(Code::kCorrupt, "{}.rope.freq_base is {}; expected at least 1", keys.architecture(),
                h.rope_base);
  MEADOW_TRY(std::string kind, keys.text_or("rope.scaling.type", "none"));
  if (kind != "none" && kind != "linear")
    return fail(Code::kUnsupported,
                "{}: rope scaling {} is not supported; supported: none, linear, and the factors of "
                "rope_freqs.weight",
                keys.architecture(), kind);
  // Older files have only the factor, under another name.
  MEADOW_TRY(float old_factor, keys.positive_or("rope.scale_linear", 1.0f));
  MEADOW_TRY(float factor, keys.positive_or("rope.scaling.factor", old_factor));
  h.rope_scale = kind == "none" && keys.has("rope.scaling.type") ? 1.0f : factor;
  return {};
}

Result<void> refuse_what_is_missing(const Keys& keys) {
  for (const char* key :
       {"expert_count", "attention.clamp_kqv", "attention.max_alibi_bias", "attn_logit_softcapping",
        "final_logit_softcapping", "logit_scale", "residual_scale", "embedding_scale"})
    if (keys.has(key))
      return fail(Code::kUnsupported, "{}.{}: models with this are not supported in this version",
                  keys.architecture(), key);
  return {};
}

}  // namespace

Result<void> read_common(const Keys& keys, Hyperparameters& h) {
  MEADOW_TRY_VOID(refuse_what_is_missing(keys));
  MEADOW_TRY(int64_t blocks, keys.count("block_count", kMaxBlocks));
  h.n_blocks = static_cast<int32_t>(blocks);
  MEADOW_TRY(h.n_embd, keys.count("embedding_length", kMaxWidth));
  MEADOW_TRY(h.n_ff, keys.count("feed_forward_length", kMaxWidth));
  MEADOW_TRY(h.n_ctx, keys.count("context_length", INT64_C(1) << 32));
  h.n_ctx = std::min(h.n_ctx, kMaxContext);
  // Up to the window, a model with sliding attention is one without.
  MEADOW_TRY(int64_t window, keys.count_or("attention.sliding_window", INT64_C(1) << 32, h.n_ctx));
  h.n_ctx = std::min(h.n_ctx, window);
  MEADOW_TRY(h.n_head, keys.count("attention.head_count", kMaxWidth));
  MEADOW_TRY(h.n_head_kv, keys.count_or("attention.head_count_kv", kMaxWidth, h.n_head));
  if (h.n_head % h.n_head_kv != 0)
    return fail(Code::kCorrupt, "{} query heads are not a multiple of {} key heads", h.n_head,
                h.n_head_kv);
  if (!keys.has("attention.key_length") && h.n_embd % h.n_head != 0)
    return fail(Code::kCorrupt, "width {} is not a multiple of {} heads", h.n_embd, h.n_head);
  const int64_t usual = std::max<int64_t>(h.n_embd / h.n_head, 1);
  MEADOW_TRY(h.head_dim, keys.count_or("attention.key_length", kMaxWidth, usual));
  MEADOW_TRY(int64_t value_dim, keys.count_or("attention.value_length", kMaxWidth, usual));
  if (value_dim != h.head_dim)
    return fail(Code::kUnsupported, "{}: heads with {} values for keys and {} for values",
                keys.architecture(), h.head_dim, value_dim);
  if (h.head_dim * h.n_head > kMaxWidth)
    return fail(Code::kCorrupt, "{} heads of {} values exceed {}", h.n_head, h.head_dim, kMaxWidth);
  MEADOW_TRY(h.norm_epsilon, keys.positive("attention.layer_norm_rms_epsilon"));
  const float scale = 1.0f / std::sqrt(static_cast<float>(h.head_dim));
  MEADOW_TRY(h.attention_scale, keys.positive_or("attention.scale", scale));
  return read_rope(keys, h);
}

Result<BlockWeights> load_common(Loader& loader, const Hyperparameters& h) {
  const int64_t width = h.head_dim * h.n_head, kv_width = h.head_dim * h.n_head_kv;
  BlockWeights w;
  MEADOW_TRY(w.attn_norm, loader.vector("attn_norm.weight", h.n_embd));
  MEADOW_TRY(w.q, loader.matrix("attn_q.weight", h.n_embd, width));
  MEADOW_TRY(w.k, loader.matrix("attn_k.weight", h.n_embd, kv_width));
  MEADOW_TRY(w.v, loader.matrix("attn_v.weight", h.n_embd, kv_width));
  MEADOW_TRY(w.attn_output, loader.matrix("attn_output.weight", width, h.n_embd));
  MEADOW_TRY(w.ffn_norm, loader.vector("ffn_norm.weight", h.n_embd));
  MEADOW_TRY(w.ffn_gate, loader.matrix("ffn_gate.weight", h.n_embd, h.n_ff));
  MEADOW_TRY(w.ffn_up, loader.matrix("ffn_up.weight", h.n_embd, h.n_ff));
  MEADOW_TRY(w.ffn_down, loader.matrix("ffn_down.weight", h.n_ff, h.n_embd));
  return w;
}

Result<void> load_qkv_biases(Loader& loader, const Hyperparameters& h, Biases biases,
                             BlockWeights& w) {
  const int64_t width = h.head_dim * h.n_head, kv_width = h.head_dim * h.n_head_kv;
  const auto load = biases == Biases::kRequired ? &Loader::vector : &Loader::optional_vector;
  MEADOW_TRY(w.q_bias, (loader.*load)("attn_q.bias", width));
  MEADOW_TRY(w.k_bias, (loader.*load)("attn_k.bias", kv_width));
  MEADOW_TRY(w.v_bias, (loader.*load)("attn_v.bias", kv_width));
  return {};
}

void project_qkv(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
                 const BlockCall& call, Workspace& work) {
  ops.rms_norm(call.hidden, w.attn_norm, h.norm_epsilon, work.normed);
  const compute::Weight weights[] = {w.q, w.k, w.v};
  const compute::Tensor out[] = {work.q, work.k, work.v};
  ops.matmul_group(weights, work.normed, out);
  if (w.q_bias.present()) ops.add_bias(work.q, w.q_bias);
  if (w.k_bias.present()) ops.add_bias(work.k, w.k_bias);
  if (w.v_bias.present()) ops.add_bias(work.v, w.v_bias);
}

void normalise_heads(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
                     Workspace& work) {
  ops.rms_norm(work.q, w.q_norm, h.norm_epsilon, work.q);
  ops.rms_norm(work.k, w.k_norm, h.norm_epsilon, work.k);
}

void attend(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
            const BlockCall& call, Workspace& work) {
  const compute::Rope rope{h.head_dim, h.n_rot, h.rope_style, call.inverse_frequency};
  ops.rope(work.q, rope, call.parts);
  ops.rope(work.k, rope, call.parts);
  ops.store(call.cache, call.parts, work.k, work.v);
  ops.attention(call.cache, call.parts, work.q, h.n_head, h.attention_scale, work.attended);
  ops.matmul(w.attn_output, work.attended, work.branch);
  if (w.attn_output_bias.present()) ops.add_bias(work.branch, w.attn_output_bias);
  ops.add(call.hidden, work.branch, call.hidden);
}

void gated_feed_forward(compute::Ops& ops, const Hyperparameters& h, const BlockWeights& w,
                        const BlockCall& call, Workspace& work) {
  ops.rms_norm(call.hidden, w.ffn_norm, h.norm_epsilon, work.normed);
  const compute::Weight weights[] = {w.ffn_gate, w.ffn_up};
  const compute::Tensor out[] = {work.gate, work.up};
  ops.matmul_group(weights, work.normed, out);
  ops.silu_mul(work.gate, work.up, work.gate);
  ops.matmul(w.ffn_down, work.gate, work.branch);
  ops.add(call.hidden, work.branch, call.hidden);
}

}  // namespace meadow::model
