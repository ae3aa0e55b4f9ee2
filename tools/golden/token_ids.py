#!/usr/bin/env python3
"""Writes tests/golden/token_ids/NAME.txt: what two other tokenizers make of the corpus.

    tools/golden/token_ids.py OUT [NAME…]

run from the project's root after tools/setup. Needs llama-cpp-python 0.3.36 (llama.cpp's tokenizer),
tokenizers 0.23 (Hugging Face's, set up with the pre-tokenizer that the file means: what transformers
makes of a GGUF ignores it) and gguf. OUT is tests/golden/token_ids.

Refuses to write if the two disagree on any piece, except where they are known to:
- surrogates spelled as UTF-8, which Hugging Face's strings cannot hold;
- a byte that has no token (smollm, starcoder): both leave it out, but to Hugging Face what stood
  beside it is then adjacent and may merge;
- U+017F (long s) after an apostrophe, which only Hugging Face's expression takes for an s;
- a normal token that llama.cpp takes for a special one by its name alone ("</s>" in Qwen2's
  vocabulary), where special tokens are parsed;
- special tokens whose names overlap in the text: llama.cpp looks for the longest names first,
  Hugging Face for the one that begins first.
These pieces are llama.cpp's word alone, and counted. Qwen2's NFC normaliser, which llama.cpp does not
have, is left out of the comparison: Meadow does not normalise, either.

A file: lines "key value"; then one line for each piece of the corpus, in order: the first 8 digits of
the SHA-256 of its ids, each as 32 bits little-endian. Pieces with an odd index have special tokens
parsed, others not; no BOS is added.
"""
import ctypes
import hashlib
import struct
import sys

import gguf
import llama_cpp as lc
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
MODELS = {
    "smollm2": "models/SmolLM2-135M-Instruct.Q4_1.gguf",
    "gpt-2": "models/vocab/ggml-vocab-gpt-2.gguf",
    "llama-bpe": "models/vocab/ggml-vocab-llama-bpe.gguf",
    "qwen2": "models/vocab/ggml-vocab-qwen2.gguf",
    "starcoder": "models/vocab/ggml-vocab-starcoder.gguf",
}


@lc.llama_log_callback
def silent(_level, _text, _user):
    pass


def pre_tokenizer(name):
    level = pre_tokenizers.ByteLevel
    if name == "gpt-2":
        return level(add_prefix_space=False, use_regex=True)
    if name in ("smollm", "starcoder"):
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                        level(add_prefix_space=False, use_regex=True)])
    pattern = {"llama-bpe": LLAMA3, "qwen2": LLAMA3.replace("{1,3}", "")}[name]
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    level(add_prefix_space=False, use_regex=False)])


class HuggingFace:
    def __init__(self, path):
        fields = gguf.GGUFReader(path).fields

        def get(key):
            return fields["tokenizer.ggml." + key].contents()

        self.tokens = get("tokens")
        types = get("token_type")
        pre = get("pre")
        merges = [tuple(m.split(" ")) for m in get("merges")]
        self.plain, self.special = (self.build(pre, types, merges, s) for s in (False, True))
        self.names = [t for t, kind in zip(self.tokens, types) if kind in (2, 3, 4)]
        known = set(self.tokens)
        alphabet = dict(zip(pre_tokenizers.ByteLevel.alphabet(), range(256)))
        self.missing = {b for b, c in enumerate(byte_names()) if c not in known}
        assert len(alphabet) == 256

    def build(self, pre, types, merges, special):
        model = models.BPE(vocab={t: i for i, t in enumerate(self.tokens)}, merges=merges,
                           ignore_merges=pre == "llama-bpe")
        out = Tokenizer(model)
        out.pre_tokenizer = pre_tokenizer(pre)
        out.decoder = decoders.ByteLevel()
        for token, kind in zip(self.tokens, types):
            if kind == 4 or (special and kind in (2, 3)):
                out.add_tokens([AddedToken(token, normalized=False, special=kind != 4)])
        return out

    def ids(self, text, special):
        return (self.special if special else self.plain).encode(text, add_special_tokens=False).ids

    def why_not(self, text, special, promoted):
        """Why the two may differ on this text, or None. promoted: what llama.cpp takes for special."""
        if any(0xD800 <= ord(c) < 0xE000 for c in text):
            return "surrogates"
        if self.missing and self.missing & set(text.encode()):
            return "bytes without a token"
        if "'\u017f" in text:
            return "long s"
        if special and any(name in text for name in promoted):
            return "special by name"
        if special:
            spans = sorted((i, i + len(n)) for n in self.names for i in occurrences(text, n))
            if any(b[0] < a[1] for a, b in zip(spans, spans[1:])):
                return "overlapping names"
        return None


def byte_names():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) if b in printable else chr(256 + others.index(b)) for b in range(256)]


def occurrences(text, name):
    at = text.find(name)
    while at >= 0:
        yield at
        at = text.find(name, at + 1)


class LlamaCpp:
    def __init__(self, path):
        params = lc.llama_model_default_params()
        params.vocab_only = True
        self.model = lc.llama_model_load_from_file(path.encode(), params)
        self.vocab = lc.llama_model_get_vocab(self.model)
        self.size = lc.llama_vocab_n_tokens(self.vocab)

    def ids(self, data, special, add=False):
        room = len(data) + 8
        out = (ctypes.c_int32 * room)()
        n = lc.llama_tokenize(self.vocab, data, len(data), out, room, add, special)
        assert n >= 0
        return out[:n]

    def piece(self, token, special):
        out = ctypes.create_string_buffer(1 << 17)
        n = lc.llama_token_to_piece(self.vocab, token, out, len(out), 0, special)
        assert n >= 0
        return out.raw[:n]


def as_llama_cpp_reads(data):
    """Code points as llama.cpp decodes them: lenient, a bad byte is U+FFFD."""
    out, i = [], 0
    while i < len(data):
        b = data[i]
        n = 1 if b < 0x80 else 0 if b < 0xC0 or b >= 0xF8 else 2 if b < 0xE0 else 3 if b < 0xF0 else 4
        tail = data[i + 1:i + n]
        if n == 0 or len(tail) != n - 1 or any(t & 0xC0 != 0x80 for t in tail):
            out.append(0xFFFD)
            i += 1
            continue
        c = b & (0x7F >> n if n > 1 else 0x7F)
        for t in tail:
            c = c << 6 | t & 0x3F
        out.append(c)
        i += n
    return "".join(map(chr, out))


def pieces():
    data = open("models/vocab/corpus.bin", "rb").read()
    at = 0
    while at < len(data):
        n, = struct.unpack_from("<I", data, at)
        yield data[at + 4:at + 4 + n]
        at += 4 + n


def digest(parts):
    h = hashlib.sha256()
    for part in parts:
        h.update(part)
    return h.hexdigest()


def of_ids(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()[:8]


def write(name, out):
    llama, face = LlamaCpp(MODELS[name]), HuggingFace(MODELS[name])
    promoted = [t for i, t in enumerate(face.tokens)
                if t not in face.names and lc.llama_vocab_is_control(llama.vocab, i)]
    lines, skipped, compared, tokens = [], {}, 0, 0
    for index, data in enumerate(pieces()):
        special = index % 2 == 1
        ids = llama.ids(data, special)
        tokens += len(ids)
        text = as_llama_cpp_reads(data)
        reason = face.why_not(text, special, promoted)
        if reason is not None:
            skipped[reason] = skipped.get(reason, 0) + 1
        elif face.ids(text, special) != ids:
            theirs = face.ids(text, special)
            at = next((i for i, (a, b) in enumerate(zip(ids, theirs)) if a != b), min(len(ids), len(theirs)))
            shown = [(face.tokens[i], i) for i in ids[max(0, at - 2):at + 4]]
            other = [(face.tokens[i], i) for i in theirs[max(0, at - 2):at + 4]]
            raise SystemExit(f"{name}: piece {index} differs at {at}: {shown} against {other}")
        else:
            compared += 1
        lines.append(of_ids(ids))
    head = {
        "model": MODELS[name],
        "tokens": llama.size,
        "pieces_plain": digest(llama.piece(i, False) + b"\0" for i in range(llama.size)),
        "pieces_special": digest(llama.piece(i, True) + b"\0" for i in range(llama.size)),
        "ends": ",".join(str(i) for i in range(llama.size) if lc.llama_vocab_is_eog(llama.vocab, i)),
        "with_bos_and_eos": ",".join(map(str, llama.ids(b"Hello", True, add=True))),
    }
    with open(f"{out}/{name}.txt", "w") as f:
        for key, value in head.items():
            f.write(f"{key} {value}\n")
        f.write("ids\n" + "\n".join(lines) + "\n")
    print(f"{name}: {compared} pieces equal in both, llama.cpp alone: {skipped}; {tokens} tokens")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    lc.llama_log_set(silent, ctypes.c_void_p(0))
    for name in sys.argv[2:] or MODELS:
        write(name, sys.argv[1])


main()
