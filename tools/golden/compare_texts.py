#!/usr/bin/env python3
"""Greedy texts of 20 prompts beside llama.cpp's, as a table for docs/benchmarks.md.

    compare_texts.py MODEL.gguf build/bench/bench_greedy [--tokens 48]

llama.cpp runs its exact path (f32 cache, no flash attention); so does the other with an f32 cache.
Where two texts part, "gap" is the distance of the two best logits of that step in each engine: a
small one is a near-tie, which the rounding of activations may decide either way.
"""

import argparse
import subprocess
from pathlib import Path

import llamalib
import numpy as np


def greedy(model, ctx, ids, tokens):
    """[(id, gap)] until the end token, which is part of it."""
    ctx.clear()
    ctx.decode(ids, 0)
    out = []
    for i in range(tokens):
        logits = ctx.logits()
        second, best = np.argpartition(logits, -2)[-2:]
        if logits[second] > logits[best]:
            second, best = best, second
        out.append((int(best), float(logits[best] - logits[second])))
        if model.is_end(int(best)):
            break
        if i + 1 < tokens:
            ctx.decode([int(best)], len(ids) + i)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("program")
    p.add_argument("--tokens", type=int, default=48)
    p.add_argument("--threads", type=int, default=1, help="of llama.cpp; results do not depend on it")
    args = p.parse_args()
    prompts = Path(__file__).with_name("prompts.txt").read_text().splitlines()
    with llamalib.Model(args.model) as model:
        chat = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
        ids = [model.tokenize(chat.format(prompt)) for prompt in prompts]
        with model.context(n_ctx=1024, n_threads=args.threads, kv="f32", flash="off") as ctx:
            theirs = [greedy(model, ctx, x, args.tokens) for x in ids]
    lines = "".join(" ".join(map(str, x)) + "\n" for x in ids)
    done = subprocess.run([args.program, args.model, str(args.tokens), "f32"], input=lines, text=True,
                          stdout=subprocess.PIPE, check=True)
    same = 0
    print("| prompt | tokens | first difference at | gap in llama.cpp | gap here |\n|---|---|---|---|---|")
    for prompt, a, line in zip(prompts, theirs, done.stdout.splitlines(), strict=True):
        ours = [(int(i), float(g)) for i, g in (word.split(":") for word in line.split())]
        at = next((i for i, (x, y) in enumerate(zip(a, ours)) if x[0] != y[0]), None)
        same += at is None
        told = "| – | | |" if at is None else f"| {at} | {a[at][1]:.3f} | {ours[at][1]:.3f} |"
        print(f"| {prompt} | {len(a)} {told}")
    print(f"\n{same} of {len(prompts)} texts are equal.")


if __name__ == "__main__":
    main()
