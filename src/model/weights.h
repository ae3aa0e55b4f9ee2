// Handles to the weights of one block. Absent ones are optional in the architecture.
// Thread rule: values; they live as long as the Ops that made them.
#pragma once
#include "compute/tensor.h"

namespace meadow::model {

struct BlockWeights {
  compute::Weight attn_norm;               // f32 [n_embd]
  compute::Weight q;                       // [n_embd, head_dim * n_head]
  compute::Weight k, v;                    // [n_embd, head_dim * n_head_kv]
  compute::Weight q_bias, k_bias, v_bias;  // f32, lengths as the rows of q, k, v; optional
  compute::Weight q_norm, k_norm;          // f32 [head_dim]; optional
  compute::Weight attn_output;             // [head_dim * n_head, n_embd]
  compute::Weight attn_output_bias;        // f32 [n_embd]; optional
  compute::Weight ffn_norm;                // f32 [n_embd]
  compute::Weight ffn_gate, ffn_up;        // [n_embd, n_ff]
  compute::Weight ffn_down;                // [n_ff, n_embd]
};

}  // namespace meadow::model
