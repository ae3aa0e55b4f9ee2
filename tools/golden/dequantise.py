#!/usr/bin/env python3
"""Writes tests/golden/data/dequantise.txt: stored rows and their values as the `gguf` package has them.

Needs numpy and gguf (tried: gguf 0.19.0, numpy 2.4.6). Usage: dequantise.py [OUTPUT]
Each line: type, the row's bytes, the bits of its values as f32; both in hexadecimal, little-endian.
"""
import pathlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

SCALES = [0x3C00, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x0000, 0x8000, 0xA3B1, 0x1234]


def quantised(rng, type_, *places, blocks=len(SCALES)):
    """Blocks of random bytes whose halves at `places` are extreme scales, each with others."""
    out = rng.integers(0, 256, (blocks, GGML_QUANT_SIZES[type_][1]), dtype=np.uint8)
    for i in range(blocks):
        for h, place in enumerate(places):
            value = SCALES[(i + 3 * h) % len(SCALES)]
            out[i, place : place + 2] = np.frombuffer(np.uint16(value).tobytes(), np.uint8)
    return type_, out.reshape(1, -1)


def mxfp4(rng):
    """All kinds of exponent: subnormal scales, ordinary ones, and values that overflow."""
    type_, out = quantised(rng, Type.MXFP4)
    exponents = [0, 1, 2, 3, 100, 127, 128, 129, 252, 254]
    out.reshape(len(exponents), -1)[:, 0] = exponents
    return type_, out


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
        quantised(rng, Type.Q8_0, 0),
        quantised(rng, Type.Q4_0, 0),
        quantised(rng, Type.Q4_1, 0, 2),
        quantised(rng, Type.Q5_0, 0),
        quantised(rng, Type.Q5_1, 0, 2),
        quantised(rng, Type.Q2_K, 80, 82, blocks=6),
        quantised(rng, Type.Q3_K, 108, blocks=6),
        quantised(rng, Type.Q4_K, 0, 2, blocks=6),
        quantised(rng, Type.Q5_K, 0, 2, blocks=6),
        quantised(rng, Type.Q6_K, 208, blocks=6),
        quantised(rng, Type.IQ4_NL, 0),
        mxfp4(rng),
    ]
    with out.open("w") as f:
        for type_, data in rows:
            values = np.ascontiguousarray(dequantize(data, type_)).astype(np.float32)
            f.write(f"{type_.name} {data.tobytes().hex()} {values.tobytes().hex()}\n")


main()
