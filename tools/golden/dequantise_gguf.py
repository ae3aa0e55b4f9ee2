#!/usr/bin/env python3
"""The same model with every weight in F32, for comparing without any quantised product.

    dequantise_gguf.py IN.gguf OUT.gguf

Needs numpy and gguf, whose dequantisation is exact in f32.
"""

import argparse

import gguf
import numpy as np


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("input")
    p.add_argument("output")
    args = p.parse_args()
    reader = gguf.GGUFReader(args.input)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(args.output, arch)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, sub)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for t in reader.tensors:
        shape = tuple(int(n) for n in reversed(t.shape))
        values = gguf.quants.dequantize(t.data, t.tensor_type).reshape(shape)
        writer.add_tensor(t.name, np.ascontiguousarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
