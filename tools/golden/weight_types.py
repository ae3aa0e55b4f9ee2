#!/usr/bin/env python3
"""A tiny random model in which every matrix has another weight type, and logits from llama.cpp.

    weight_types.py tests/golden/data    # weight_types.gguf and weight_types.golden in it

Needs numpy, gguf and llama-cpp-python, whose llama.cpp quantises the matrices; and torch, which the
script that this one shares its tokenizer with imports.

weight_types.golden is little-endian, without padding:
    char[8]  "MEADOWT1"
    u32      n_vocab, n_tokens
    i32      ids[n_tokens]
    f32      truth[n_tokens][n_vocab]  of the dequantised model, in f32
    f32      steps[n_tokens][n_vocab]  of the quantised file, id by id
"""

import argparse
import ctypes
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp as lc
import llamalib
import numpy as np
from tiny_models import VOCAB, add_tokenizer

WIDTH, HEADS, KV_HEADS, HEAD, CONTEXT, TOKENS = 256, 8, 2, 32, 64, 20
TYPES = {
    "token_embd": "Q6_K", "output": "Q5_K",
    "blk.0.attn_q": "Q5_0", "blk.0.attn_k": "Q8_0", "blk.0.attn_v": "Q4_1", "blk.0.attn_output": "Q5_1",
    "blk.0.ffn_gate": "Q2_K", "blk.0.ffn_up": "Q3_K", "blk.0.ffn_down": "Q4_K",
    "blk.1.attn_q": "IQ4_NL", "blk.1.attn_k": "F16", "blk.1.attn_v": "BF16", "blk.1.attn_output": "MXFP4",
    "blk.1.ffn_gate": "Q4_0", "blk.1.ffn_up": "Q4_K", "blk.1.ffn_down": "Q6_K",
}


def write_f32(path, rng):
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_name("every weight type, tiny random")
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_block_count(2)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(WIDTH)
    w.add_feed_forward_length(WIDTH)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_vocab_size(VOCAB)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(HEAD)
    w.add_rope_freq_base(1e4)
    add_tokenizer(w)
    rows = {"token_embd": VOCAB, "output": VOCAB, "attn_k": KV_HEADS * HEAD, "attn_v": KV_HEADS * HEAD}
    for name in TYPES:
        shape = (rows.get(name.split(".")[-1], WIDTH), WIDTH)
        w.add_tensor(f"{name}.weight", (rng.standard_normal(shape) / 16).astype(np.float32))
    for name in ["output_norm"] + [f"blk.{b}.{n}" for b in range(2) for n in ("attn_norm", "ffn_norm")]:
        w.add_tensor(f"{name}.weight", (1 + 0.2 * rng.standard_normal(WIDTH)).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def quantise(source, target):
    """Each matrix by llama.cpp's own quantiser for its type."""
    overrides = (lc.llama_model_tensor_override * (len(TYPES) + 1))()
    for i, (name, type_) in enumerate(TYPES.items()):
        pattern = f"^{name}.weight$".replace(".", "\\.").encode()
        overrides[i].pattern = pattern
        overrides[i].type = gguf.GGMLQuantizationType[type_]
    params = lc.llama_model_quantize_default_params()
    params.ftype = lc.LLAMA_FTYPE_MOSTLY_Q8_0
    params.nthread = 1
    params.token_embedding_type = gguf.GGMLQuantizationType[TYPES["token_embd"]]
    params.output_tensor_type = gguf.GGMLQuantizationType[TYPES["output"]]
    params.tt_overrides = ctypes.cast(overrides, ctypes.POINTER(lc.llama_model_tensor_override))
    if lc.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) != 0:
        raise SystemExit(f"llama.cpp does not quantise:\n{llamalib.log_text()[-2000:]}")
    got = {t.name.removesuffix(".weight"): t.tensor_type.name for t in gguf.GGUFReader(target).tensors}
    for name, type_ in TYPES.items():
        if got[name] != type_:
            raise SystemExit(f"{name} is {got[name]}, wanted {type_}")


def logits_of(path, ids):
    """f32 [tokens, vocab]: id by id, cache in f32, weights as they lie in the file."""
    out = []
    with llamalib.Model(str(path), repack=False) as model:
        with model.context(n_ctx=CONTEXT, n_threads=1, kv="f32", flash="off") as ctx:
            for i, token in enumerate(ids):
                ctx.decode([token], i)
                out.append(ctx.logits())
    return np.stack(out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=Path)
    args = p.parse_args()
    rng = np.random.default_rng(5)
    ids = [int(t) for t in rng.integers(3, VOCAB, TOKENS)]
    model = args.out / "weight_types.gguf"
    with tempfile.TemporaryDirectory() as folder:
        f32, exact = Path(folder, "f32.gguf"), Path(folder, "exact.gguf")
        write_f32(f32, rng)
        quantise(f32, model)
        script = Path(__file__).with_name("dequantise_gguf.py")
        subprocess.run([sys.executable, script, model, exact], check=True)
        truth = logits_of(exact, ids)
    steps = logits_of(model, ids)
    with open(args.out / "weight_types.golden", "wb") as f:
        f.write(b"MEADOWT1" + struct.pack("<2I", VOCAB, TOKENS))
        for x, kind in ((ids, "<i4"), (truth, "<f4"), (steps, "<f4")):
            f.write(np.ascontiguousarray(x, dtype=kind).tobytes())
    print(f"range {np.ptp(truth):.2f}; quantised file by llama.cpp: "
          f"rms {np.sqrt(((steps - truth) ** 2).mean()):.2e}, max {np.abs(steps - truth).max():.2e}")


if __name__ == "__main__":
    main()
