"""llama.cpp as one side of tools/bench/compare: a process that holds one model and runs what a line
of JSON on its standard input asks for; answers one line of JSON each.

    {"test": "prefill", "threads": 2, "flash": "auto", "tokens": 512}           {"seconds": …}
    {"test": "decode", "threads": 2, "flash": "off", "tokens": 32, "depth": 4096}
    {"test": "parallel", "threads": 2, "flash": "auto", "tokens": 32, "sequences": 4}

Random ids; no logits are read and nothing is sampled, like llama.cpp's own llama-bench. A cache that
was filled to a depth is kept for the next call. Its own program (first token): see first_token().
"""

import json
import pathlib
import sys
import time

STARTED = time.monotonic()

import numpy as np  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import llamalib  # noqa: E402


class Worker:
    def __init__(self, path: str, repack: bool, kv: str):
        self.model = llamalib.Model(path, repack=repack)
        self.kv = kv
        self.rng = np.random.default_rng(7)
        self.contexts = {}  # (flash, room, sequences) -> context
        self.filled = {}  # the same -> positions held

    def context(self, flash: str, room: int, threads: int, sequences: int = 1):
        key = (flash, room, sequences)
        if key not in self.contexts:
            self.contexts[key] = self.model.context(
                n_ctx=room * sequences, n_threads=threads, n_seq=sequences, kv=self.kv, flash=flash)
            self.filled[key] = 0
        context = self.contexts[key]
        context.set_threads(threads)
        return key, context

    def tokens(self, n: int):
        return self.rng.integers(0, self.model.n_vocab, n)

    def prefill(self, threads: int, flash: str, tokens: int) -> float:
        _, context = self.context(flash, tokens + 8, threads)
        context.clear()
        ids = self.tokens(tokens)
        start = time.perf_counter()
        context.decode(ids, 0)
        context.wait()
        return time.perf_counter() - start

    def decode(self, threads: int, flash: str, tokens: int, depth: int) -> float:
        key, context = self.context(flash, (depth + tokens + 263) // 256 * 256, threads)
        if self.filled[key] == 0 and depth > 0:
            context.decode(self.tokens(depth), 0, outputs="none")
            context.wait()
            self.filled[key] = depth
        ids = self.tokens(tokens + 1)
        context.decode(ids[:1], depth)  # warm: threads, buffers of this batch size
        context.truncate(0, depth)
        start = time.perf_counter()
        for i in range(tokens):
            context.decode(ids[i:i + 1], depth + i)
            context.wait()
        seconds = time.perf_counter() - start
        context.truncate(0, depth)
        return seconds

    def parallel(self, threads: int, flash: str, tokens: int, sequences: int) -> float:
        _, context = self.context(flash, (tokens + 263) // 256 * 256, threads, sequences)
        ids = self.tokens(tokens * sequences).reshape(tokens, sequences)
        context.clear()
        context.step(ids[0], [0] * sequences)
        context.clear()
        start = time.perf_counter()
        for i in range(tokens):
            context.step(ids[i], [i] * sequences)
            context.wait()
        return time.perf_counter() - start


def first_token(path: str, repack: bool, threads: int) -> float:
    """Seconds from the start of loading to the logits of a one-token prompt; Python's own start and
    imports are not counted."""
    start = time.monotonic()
    with llamalib.Model(path, repack=repack) as model:
        context = model.context(n_ctx=512, n_threads=threads)
        context.decode([1], 0)
        int(context.logits().argmax())
        return time.monotonic() - start


def main() -> int:
    path, repack, kv = sys.argv[1], sys.argv[2] == "repack", sys.argv[3]
    if len(sys.argv) > 4:  # first token, with as many threads
        print(json.dumps({"seconds": first_token(path, repack, int(sys.argv[4]))}))
        return 0
    worker = Worker(path, repack, kv)
    print(json.dumps({"ready": llamalib.lc.llama_print_system_info().decode()}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        run = getattr(worker, asked.pop("test"))
        print(json.dumps({"seconds": run(**asked)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
