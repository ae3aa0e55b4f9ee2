#!/usr/bin/env python3
"""Tiny random models of every supported variant, with golden logits from transformers.

    tiny_models.py tests/golden/data            # all variants: NAME.gguf and NAME.golden in it
    tiny_models.py tests/golden/data --check    # and prove the files with llama.cpp, if installed

Needs torch, transformers >= 5, numpy and gguf (llama-cpp-python for --check).  Weights are float32.
Norm weights and biases are random too, so that an engine that forgets one of them fails; the rope
scalings act within the input, and the input is longer than a page of the cache (64 positions), for
the same reason.

NAME.golden is little-endian, without padding:
    char[8]  "MEADOWG1"
    u32      n_vocab, n_tokens, n_greedy, every
    i32      ids[n_tokens]
    i32      greedy[n_greedy]     greedy continuation of ids
    f32      logits[..][n_vocab]  all tokens in one pass
    f32      steps[..][n_vocab]   token by token with the cache
both at the positions p with (p + 1) % every == 0, n_tokens / every of them.
"""

import argparse
import math
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

VOCAB = 272
CONTEXT = 128
TOKENS, GREEDY, EVERY = 72, 16, 4

# name -> transformers' config and model class, GGUF architecture
FAMILIES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", "llama"),
    "llama-linear-rope": ("LlamaConfig", "LlamaForCausalLM", "llama"),
    "llama3-rope": ("LlamaConfig", "LlamaForCausalLM", "llama"),
    "mistral": ("MistralConfig", "MistralForCausalLM", "llama"),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", "qwen2"),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", "qwen3"),
}


def config_options(name):
    """Several query heads per key head; an explicit head_dim differs from hidden / heads."""
    gqa = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
               intermediate_size=44, max_position_embeddings=CONTEXT)
    rope = lambda base, **more: dict(rope_type="default", rope_theta=base) | more  # noqa: E731
    wide = dict(head_dim=16)
    return {
        "llama": gqa | dict(rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope(1e4)),
        "llama-linear-rope": gqa | dict(
            num_hidden_layers=1, rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters=rope(1e4, rope_type="linear", factor=4.0)),
        "llama3-rope": gqa | wide | dict(
            rms_norm_eps=1e-5, tie_word_embeddings=True,
            # the wavelengths of a head fall on all three sides of these limits
            rope_parameters=rope(5e5, rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                 high_freq_factor=4.0, original_max_position_embeddings=64)),
        "mistral": gqa | wide | dict(rms_norm_eps=1e-5, sliding_window=None,
                                     tie_word_embeddings=False, rope_parameters=rope(1e6)),
        "qwen2": gqa | dict(rms_norm_eps=1e-6, tie_word_embeddings=True, rope_parameters=rope(1e6)),
        "qwen3": gqa | wide | dict(rms_norm_eps=1e-6, tie_word_embeddings=True,
                                   rope_parameters=rope(1e6)),
    }[name]


def build(name, seed):
    config_class, model_class, _ = FAMILIES[name]
    config = getattr(transformers, config_class)(
        vocab_size=VOCAB, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        attn_implementation="eager", **config_options(name))
    model = getattr(transformers, model_class)(config).float().eval()
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            x = torch.randn(p.shape, generator=rng)
            if key.endswith("bias"):
                p.copy_(0.1 * x)
            elif p.dim() == 1:
                p.copy_(1.0 + 0.2 * x)
            elif "embed" in key:
                p.copy_(0.5 * x)
            else:
                p.copy_(x / math.sqrt(p.shape[-1]))
    return model.requires_grad_(False)


def golden(model, ids):
    """(logits at the kept positions, all logits, steps, greedy) of ids i64 [1, TOKENS]."""
    logits = model(ids, use_cache=False).logits[0].numpy()
    cache, steps, greedy, token = None, [], [], ids[:, :1]
    for i in range(TOKENS + GREEDY - 1):
        o = model(token, past_key_values=cache, use_cache=True)
        cache, last = o.past_key_values, o.logits[:, -1]
        if i < TOKENS and (i + 1) % EVERY == 0:
            steps.append(last[0].numpy())
        if i + 1 < TOKENS:
            token = ids[:, i + 1:i + 2]
        else:
            token = last.argmax(-1, keepdim=True)
            greedy.append(int(token))
    return logits[EVERY - 1::EVERY], logits, np.stack(steps), np.array(greedy, dtype=np.int32)


def add_tokenizer(w):
    """A byte-level BPE with three special tokens: any text can be tokenised."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars, extra = {}, 0
    for b in range(256):                          # GPT-2's way of writing a byte as a character
        if b in printable:
            chars[b] = chr(b)
        else:
            chars[b], extra = chr(256 + extra), extra + 1
    merges = ["t h", "th e", "a n", "an d", "i n", "in g", "e r", "o n"]
    tokens = ["<unk>", "<s>", "</s>"] + [chars[b] for b in range(256)]
    tokens += [m.replace(" ", "") for m in merges]
    kinds = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2
    kinds += [gguf.TokenType.NORMAL] * (len(tokens) - 3) + [gguf.TokenType.UNUSED] * (VOCAB - len(tokens))
    tokens += [f"<unused{i}>" for i in range(VOCAB - len(tokens))]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges(merges)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(False)


def llama3_rope_factors(rope, head_dim):
    """Divisors of the rotary frequencies, as GGUF's rope_freqs.weight has them."""
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    out = []
    for j in range(0, head_dim, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (j / head_dim)
        if wavelength < high:
            out.append(1.0)
        elif wavelength > low:
            out.append(rope["factor"])
        else:
            s = (rope["original_max_position_embeddings"] / wavelength - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])
            out.append(1 / ((1 - s) / rope["factor"] + s))
    return np.array(out, dtype=np.float32)


def write_gguf(name, model, path):
    c, arch = model.config, FAMILIES[name][2]
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    w = gguf.GGUFWriter(str(path), arch)
    w.add_name(f"{name} tiny random")
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_vocab_size(VOCAB)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    w.add_rope_dimension_count(head_dim)
    rope = c.rope_parameters
    w.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_rope_factors(rope, head_dim))
    add_tokenizer(w)

    arch_key = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    names = gguf.get_tensor_name_map(arch_key, c.num_hidden_layers)
    for key, tensor in model.state_dict().items():
        if key == "lm_head.weight" and c.tie_word_embeddings:   # readers fall back to token_embd
            continue
        x = tensor.numpy()
        if arch == "llama" and key.endswith(("q_proj.weight", "k_proj.weight")):
            # halves (j, j + d/2) -> neighbours (2j, 2j+1) within each head
            h = x.shape[0] // head_dim
            x = x.reshape(h, 2, head_dim // 2, -1).swapaxes(1, 2).reshape(x.shape)
        new = names.get_name(key, (".weight", ".bias"))
        if new is None:
            raise ValueError(f"no GGUF name for {key}")
        w.add_tensor(new, np.ascontiguousarray(x, dtype=np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def check(path, ids, logits):
    """Largest difference to llama.cpp, one pass and token by token; its cache in f32."""
    import llama_cpp
    m = llama_cpp.Llama(str(path), n_ctx=CONTEXT, n_batch=CONTEXT, logits_all=True, verbose=False,
                        n_threads=1, type_k=0, type_v=0, flash_attn=False)
    m.eval(ids.tolist())
    whole = np.array(m.scores[:len(ids)])
    m.reset()
    for t in ids.tolist():
        m.eval([t])
    return np.abs(whole - logits).max(), np.abs(np.array(m.scores[:len(ids)]) - logits).max()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=Path)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name in FAMILIES:
        model = build(name, args.seed)
        rng = torch.Generator().manual_seed(args.seed)
        ids = torch.randint(3, VOCAB, (1, TOKENS), generator=rng)
        kept, logits, steps, greedy = golden(model, ids)
        flat = ids[0].numpy().astype("<i4")
        write_gguf(name, model, args.out / f"{name}.gguf")
        with open(args.out / f"{name}.golden", "wb") as f:
            f.write(b"MEADOWG1" + struct.pack("<4I", VOCAB, TOKENS, GREEDY, EVERY))
            for x, kind in ((flat, "<i4"), (greedy, "<i4"), (kept, "<f4"), (steps, "<f4")):
                f.write(np.ascontiguousarray(x, dtype=kind).tobytes())
        told = ""
        if args.check:
            told = " against llama.cpp %.1e, by steps %.1e" % check(args.out / f"{name}.gguf", flat, logits)
        print(f"{name}: |logit| <= {np.abs(logits).max():.1f}, range {np.ptp(logits):.1f}{told}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
