#!/usr/bin/env python3
"""Makes the text that tokenizers are compared on: 11 MB in pieces, the same bytes on every machine.

    tools/golden/corpus.py SDIST FOLDER

SDIST is llama_cpp_python-0.3.36.tar.gz; FOLDER has the ggml-vocab files unpacked from it and gets
corpus.bin: for each piece its length (32 bits, little-endian) and its bytes. tools/fetch-vocabs runs
this. Needs nothing but Python.

Half of it is real: prose, reasoning in English and mathematics, code in six languages and the
multi-lingual test lines that the package carries. The other half is made: words of all the languages
in Qwen2's vocabulary, emoji, Chinese, Japanese, Korean, scripts with combining marks, white space of
every kind, digits, contractions, names of special tokens and what resembles them, random bytes, and
a few long words. Code points are taken from ranges that are assigned in Unicode 14, for Unicode's
tables differ between tokenizers beyond it.
"""
import struct
import sys
import tarfile

MASK = (1 << 64) - 1
ROOT = "llama_cpp_python-0.3.36/vendor/llama.cpp/"
FILES = [
    "README.md", "CONTRIBUTING.md", "docs/build.md", "docs/multimodal.md", "docs/speculative.md",
    "docs/development/HOWTO-add-model.md", "docs/ops.md", "tools/server/README.md",
    "benches/dgx-spark/aime25_openai__gpt-oss-120b-high_temp1.0_20251109_094547_allresults.json",
    "benches/dgx-spark/aime25_openai__gpt-oss-120b-high_temp1.0_20251109_094547.html",
    "tools/ui/src/lib/vendors/nerdamer-prime/nerdamer.core.js", "tests/test-backend-ops.cpp",
    "src/llama-vocab.cpp", "src/llama-sampler.cpp", "src/llama-chat.cpp", "tests/test-chat.cpp",
    "tools/ui/src/lib/vendors/nerdamer-prime/Algebra.js", "gguf-py/gguf/constants.py",
    "ggml/src/ggml-metal/ggml-metal-ops.cpp", "vendor/cpp-httplib/httplib.h",
    "models/ggml-vocab-llama-bpe.gguf.inp",
]
REAL_BYTES = 6_000_000
# name: (bytes in all, bytes of a piece)
MADE = {"words": (2_000_000, 3000), "scripts": (700_000, 2000), "marks": (300_000, 2000),
        "spaces": (500_000, 1500), "digits": (300_000, 1500), "contractions": (200_000, 1500),
        "specials": (300_000, 1500), "bytes": (500_000, 1500), "mixed": (700_000, 3000)}

LETTERS = [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x17E), (0x391, 0x3A1), (0x3B1, 0x3C9), (0x410, 0x44F),
           (0x5D0, 0x5EA), (0x620, 0x64A), (0x905, 0x939), (0xE01, 0xE30), (0x10D0, 0x10FA),
           (0x1100, 0x1112), (0xAC00, 0xD7A3), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5),
           (0x3400, 0x4DB5), (0x20000, 0x2A6D6), (0x10400, 0x1044F), (0x1D400, 0x1D454)]
MARKS = [(0x300, 0x36F), (0x64B, 0x65F), (0x93E, 0x94D), (0xE34, 0xE3A), (0x1AB0, 0x1ABD),
         (0x20D0, 0x20F0), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF)]
NUMBERS = [(0x30, 0x39), (0x30, 0x39), (0x30, 0x39), (0x660, 0x669), (0x966, 0x96F), (0xB2, 0xB3),
           (0xBC, 0xBE), (0x2160, 0x2188), (0x2460, 0x249B), (0xFF10, 0xFF19), (0x1D7CE, 0x1D7FF)]
SYMBOLS = [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E), (0xA1, 0xA9), (0x2010, 0x2027),
           (0x2030, 0x205E), (0x20A0, 0x20BF), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x3001, 0x3004),
           (0xFF01, 0xFF0F), (0xE000, 0xE0FF), (0, 8), (0x0E, 0x1B), (0x200B, 0x200F), (0xFFFD, 0xFFFD),
           (0x10FFFF, 0x10FFFF)]
EMOJI = [(0x1F300, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F900, 0x1F9FF), (0x2600, 0x26FF), (0x200D, 0x200D),
         (0xFE0F, 0xFE0F), (0x1F3FB, 0x1F3FF), (0x1F1E6, 0x1F1FF)]
SPACES = [" "] * 12 + ["\n"] * 5 + ["\t", "\r", "\r\n", "\v", "\f", "\u0085", "\u00a0", "\u1680",
                                    "\u2003", "\u2028", "\u202f", "\u205f", "\u3000"]
CONTRACTIONS = ["'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'ve", "'VE", "'m", "'M", "'ll", "'lL",
                "'LL", "'d", "'D", "'", "''", "\u2019s", "'x", "'r", "'v", "'l", "'le"]


class Random:
    """splitmix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        return self.next() % n

    def of(self, items):
        return items[self.next() % len(items)]

    def char(self, ranges):
        low, high = self.of(ranges)
        return chr(low + self.next() % (high - low + 1))

    def chars(self, ranges, most):
        return "".join(self.char(ranges) for _ in range(1 + self.below(most)))


def strings_of(path, wanted):
    """The array of strings `wanted` in a GGUF file."""
    data = open(path, "rb").read()
    at = 24
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def text():
        nonlocal at
        n, = struct.unpack_from("<Q", data, at)
        at += 8 + n
        return data[at - n:at]

    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        key = text().decode()
        kind, = struct.unpack_from("<I", data, at)
        at += 4
        count = 1
        if kind == 9:
            kind, count = struct.unpack_from("<IQ", data, at)
            at += 12
        if kind == 8:
            values = [text() for _ in range(count)]
            if key == wanted:
                return [v.decode() for v in values]
        else:
            at += sizes[kind] * count
    raise SystemExit(f"{path} has no {wanted}")


def words_of(folder):
    """The words in Qwen2's vocabulary, of any language, and names of special tokens."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    byte_of = {chr(b): b for b in printable}
    byte_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    words = []
    for name in strings_of(f"{folder}/ggml-vocab-qwen2.gguf", "tokenizer.ggml.tokens"):
        if len(name) < 2 or any(c not in byte_of for c in name):
            continue
        try:
            word = bytes(byte_of[c] for c in name).decode()
        except UnicodeDecodeError:
            continue
        if all(ord(c) < 0xFFFF for c in word):
            words.append(word)
    return words


def specials_of(folder):
    names = []
    for vocab in ("gpt-2", "llama-bpe", "qwen2", "starcoder"):
        for name in strings_of(f"{folder}/ggml-vocab-{vocab}.gguf", "tokenizer.ggml.tokens"):
            if name.startswith("<") and name.endswith(">") and 4 < len(name) < 30:
                names.append(name)
    return names[:400]


def make(kind, size, random, words, specials):
    out = []
    length = 0
    while length < size:
        if kind == "words":
            part = random.of(words) + random.of(["", "", " ", " ", ", ", ". ", "\n"])
        elif kind == "scripts":
            part = random.chars([random.of(LETTERS)], 12) + random.of(["", " ", "\u3001", "\n"])
        elif kind == "marks":
            part = random.chars(LETTERS, 2) + random.chars(MARKS, 2) + random.of(["", " ", "."])
        elif kind == "spaces":
            part = "".join(random.of(SPACES) for _ in range(1 + random.below(9)))
            part += random.of(["", "x", "1", "!", "\u4e2d", "it's", "."])
        elif kind == "digits":
            part = random.chars(NUMBERS, 12) + random.of(["", " ", ".", ",", "-", "  ", "e", "\n"])
        elif kind == "contractions":
            part = random.of(["I", "we", "", " ", "\u00e9", "9"]) + random.of(CONTRACTIONS)
            part += random.of(["", " ", "a", "\n"])
        elif kind == "specials":
            part = random.of(specials)
            cut = random.below(8)
            if cut == 0:
                part = part[1:]
            elif cut == 1:
                part = part[:-1]
            part += random.of(["", "", " ", "\n", "user", " Hi!"])
        elif kind == "bytes":
            b = random.next() & 0xFF
            if random.below(3) == 0:
                b = 0x80 | (b & 0x3F)
            # No lead byte of a code point beyond U+FFFFF: those that spell one beyond U+10FFFF make
            # llama.cpp throw.
            part = bytes([b ^ 0x80 if 0xF4 <= b <= 0xF7 else b])
        else:
            part = random.chars(random.of([LETTERS, MARKS, NUMBERS, SYMBOLS, EMOJI, EMOJI]), 6)
            part += random.of(["", "", " ", "  ", "\n", "'s"])
        part = part if isinstance(part, bytes) else part.encode()
        out.append(part)
        length += len(part)
    return b"".join(out)


def pieces(sdist, folder):
    random = Random(2026)
    out = [b"", b" ", b"\n", b"a"]
    real = []
    with tarfile.open(sdist) as archive:
        wanted = {ROOT + name: name for name in FILES}
        found = {wanted[m.name]: archive.extractfile(m).read() for m in archive if m.name in wanted}
    for name in FILES:
        real.append(found[name])
    text = b"".join(real)[:REAL_BYTES]
    while text:
        n = 500 + random.below(6000)
        out.append(text[:n])  # a cut in the middle of a code point is part of the test
        text = text[n:]
    words, specials = words_of(folder), specials_of(folder)
    for kind, (total, size) in MADE.items():
        made = 0
        while made < total:
            piece = make(kind, 1 + random.below(2 * size), random, words, specials)
            made += len(piece)
            out.append(piece)
    out.append("".join(random.of("abcdefghijklmnopqrstuvwxyz") for _ in range(200_000)).encode())
    out.append(b"ab" * 50_000)
    out.append(b" " * 30_000 + b"x")
    out.append(b"\n" * 30_000)
    out.append("\u4e2d\u6587".encode() * 20_000)
    return out


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2] + "/corpus.bin", "wb") as out:
        for piece in pieces(sys.argv[1], sys.argv[2]):
            out.write(struct.pack("<I", len(piece)) + piece)


main()
