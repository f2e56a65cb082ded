"""How long reading a model's header takes, beside reading the same bytes and doing nothing with them.

``python -m benchmarks.headers [FILE.gguf …]``; without files it writes one with a vocabulary of 248,320 tokens.
The budget is 0.2 s for such a vocabulary on an idle box; the ratio says what of it is the walker's own.
"""

from __future__ import annotations

import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from gearshift.artifacts.model import read_model

_TOKENS, _MERGES, _REPEATS = 248_320, 247_587, 9


def main() -> None:
    """Print one line a file: median and spread of the walk, median of a plain read, their ratio."""
    given = [Path(argument) for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        paths = given or [write_vocabulary(Path(folder) / "vocabulary-248k.gguf")]
        print(f"{'file':40} {'header ms':>12} {'min-max':>14} {'read ms':>9} {'ratio':>6}")
        for path in paths:
            walk, plain = timed(partial(read_model, path)), timed(partial(read_bytes, path))
            middle, floor = statistics.median(walk), statistics.median(plain)
            spread = f"{min(walk):.1f}-{max(walk):.1f}"
            print(f"{path.name[:40]:40} {middle:12.1f} {spread:>14} {floor:9.1f} {middle / floor:6.1f}")


def timed(work: Callable[[], object]) -> list[float]:
    """Milliseconds of each repeat, the first one (a cold page cache) left out."""
    stamps = []
    for _ in range(_REPEATS + 1):
        begin = time.perf_counter()
        work()
        stamps.append((time.perf_counter() - begin) * 1e3)
    return stamps[1:]


def read_bytes(path: Path) -> int:
    """Read up to 16 MiB, about what a header with a large vocabulary spans."""
    with path.open("rb") as file:
        return len(file.read(16 << 20))


def write_vocabulary(path: Path) -> Path:
    """A metadata-only file of the size of Qwen3.5's: tokens, types and merges."""
    pairs = [
        _pair("general.architecture", "qwen35"),
        _number("qwen35.block_count", 64),
        _number("qwen35.embedding_length", 5120),
        _number("qwen35.attention.head_count", 24),
        _strings("tokenizer.ggml.tokens", (f"token-{index}" for index in range(_TOKENS)), _TOKENS),
        _key("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, _TOKENS) + bytes(4 * _TOKENS),
        _strings("tokenizer.ggml.merges", (f"left{index} right{index}" for index in range(_MERGES)), _MERGES),
    ]
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs))
    return path


def _key(name: str) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode()


def _pair(name: str, value: str) -> bytes:
    return _key(name) + struct.pack("<I", 8) + _key(value)


def _number(name: str, value: int) -> bytes:
    return _key(name) + struct.pack("<II", 4, value)


def _strings(name: str, values: Iterable[str], count: int) -> bytes:
    return _key(name) + struct.pack("<IIQ", 9, 8, count) + b"".join(_key(value) for value in values)


if __name__ == "__main__":
    main()
