#!/usr/bin/env python3
"""Logits of the real model along 1,000 forced ids, from llama.cpp's exact path (f32 cache, no flash
attention): of the dequantised model in f32, which is the truth, and of the quantised file.

    real_model.py MODEL.gguf DEQUANTISED.gguf OUT.golden

The ids are one conversation: the prompts of prompts.txt in the chat form of the model, each answered
greedily by the dequantised model, which gets every id by itself, as in generation.

OUT is little-endian, without padding:
    char[8]  "MEADOWR1"
    u32      n_tokens, n_best
    i32      ids[n_tokens]
    u16      best[n_tokens][n_best]    the ids of the best logits of the dequantised model, best first
    f32      truth[n_tokens][n_best]   their logits
    f32      steps[n_tokens][n_best]   llama.cpp's logits of the quantised file, id by id
    f32      batch[n_tokens][n_best]   and all ids in one pass: other kernels, other rounding
"""

import argparse
import struct
from pathlib import Path

import llamalib
import numpy as np

ANSWER = 64  # longest answer


def best_of(logits, n):
    best = np.argpartition(-logits, n)[:n]
    return best[np.lexsort((best, -logits[best]))]


def converse(model, ctx, n_tokens, n_best):
    """(ids, best, values): the conversation and its best logits."""
    prompts = Path(__file__).with_name("prompts.txt").read_text().splitlines()
    ids, best, values = [], [], []

    def take(token):
        ctx.decode([token], len(ids))
        logits = ctx.logits()
        ids.append(token)
        best.append(best_of(logits, n_best))
        values.append(logits[best[-1]])
        return int(best[-1][0])

    while len(ids) < n_tokens:
        for prompt in prompts:
            text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
            for token in model.tokenize(text):
                following = take(token)
            for _ in range(ANSWER):
                if len(ids) >= n_tokens or model.is_end(following):
                    break
                following = take(following)
            for token in model.tokenize("<|im_end|>\n"):
                take(token)
            if len(ids) >= n_tokens:
                break
    cut = slice(0, n_tokens)
    return ids[cut], np.stack(best)[cut], np.stack(values)[cut]


def along(ctx, ids, best):
    values = []
    for i, token in enumerate(ids):
        ctx.decode([token], i)
        values.append(ctx.logits()[best[i]])
    return np.stack(values)


def at_once(ctx, ids, best):
    ctx.decode(ids, 0, outputs="all")
    return np.stack([ctx.logits(i)[best[i]] for i in range(len(ids))])


def report(name, values, truth):
    """The shift that all logits of a position share changes no probability: told apart."""
    e = (values - truth).astype(np.float64)
    free = e - e.mean(axis=1, keepdims=True)
    print(f"llama.cpp on the quantised file, {name}: rms {np.sqrt((e ** 2).mean()):.4f}, "
          f"mean {np.abs(e).mean():.4f}, max {np.abs(e).max():.4f}, "
          f"rms without the shift of each position {np.sqrt((free ** 2).mean()):.4f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("dequantised")
    p.add_argument("out")
    p.add_argument("--tokens", type=int, default=1000)
    p.add_argument("--best", type=int, default=32)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    exact = dict(n_ctx=args.tokens + 128, n_threads=args.threads, kv="f32", flash="off")
    with llamalib.Model(args.dequantised) as model, model.context(**exact) as ctx:
        ids, best, truth = converse(model, ctx, args.tokens, args.best)
        print(b"".join(model.piece(t) for t in ids).decode("utf-8", "replace"))
    with llamalib.Model(args.model) as model:
        with model.context(**exact) as ctx:
            steps = along(ctx, ids, best)
        with model.context(**exact) as ctx:
            batch = at_once(ctx, ids, best)
    with open(args.out, "wb") as f:
        f.write(b"MEADOWR1" + struct.pack("<2I", args.tokens, args.best))
        for x, kind in ((ids, "<i4"), (best, "<u2"), (truth, "<f4"), (steps, "<f4"), (batch, "<f4")):
            f.write(np.ascontiguousarray(x, dtype=kind).tobytes())
    report("id by id", steps, truth)
    report("all at once", batch, truth)


if __name__ == "__main__":
    main()
