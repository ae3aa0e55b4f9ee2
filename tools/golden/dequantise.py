#!/usr/bin/env python3
"""Writes tests/golden/data/dequantise.txt: stored rows and their values as the `gguf` package has them.

Needs numpy and gguf (tried: gguf 0.19.0, numpy 2.4.6). Usage: dequantise.py [OUTPUT]
Each line: type, the row's bytes, the bits of its values as f32; both in hexadecimal, little-endian.
"""
import pathlib
import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

SCALES = [0x3C00, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x0000, 0x8000, 0xA3B1, 0x1234]


def quantised(rng, type_, block_bytes, halves):
    blocks = rng.integers(0, 256, (len(SCALES), block_bytes), dtype=np.uint8)
    for i, scale in enumerate(SCALES):
        for h in range(halves):
            value = SCALES[(i + 3 * h) % len(SCALES)] if h else scale
            blocks[i, 2 * h : 2 * h + 2] = np.frombuffer(np.uint16(value).tobytes(), np.uint8)
    return type_, blocks.reshape(1, -1)


def halves(rng, type_, exponent_mask):
    bits = rng.integers(0, 1 << 16, 96, dtype=np.uint16)
    bits[bits & exponent_mask == exponent_mask] &= 0x8FFF  # finite
    bits[:4] = [0x0001, 0x8001, 0x0000, 0x8000]
    return type_, bits.view(np.uint8).reshape(1, -1)


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/data/dequantise.txt"
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    rng = np.random.default_rng(20240607)
    rows = [
        (Type.F32, rng.standard_normal(40).astype(np.float32).view(np.uint8).reshape(1, -1)),
        halves(rng, Type.F16, 0x7C00),
        halves(rng, Type.BF16, 0x7F80),
        quantised(rng, Type.Q8_0, 34, 1),
        quantised(rng, Type.Q4_0, 18, 1),
        quantised(rng, Type.Q4_1, 20, 2),
    ]
    with out.open("w") as f:
        for type_, data in rows:
            values = np.ascontiguousarray(dequantize(data, type_)).astype(np.float32)
            f.write(f"{type_.name} {data.tobytes().hex()} {values.tobytes().hex()}\n")


main()
