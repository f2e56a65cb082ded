"""Reading an engine's log file from its end, and following it across restarts of the engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

BLOCK = 64 * 1024
POLL_S = 0.2  # a person watching a log cannot tell this from at once, and one stat() per follower costs nothing


def tail(path: Path, lines: int) -> tuple[bytes, int]:
    """The last ``lines`` lines of a file and the offset behind them; an absent file is empty."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            start = _start_of_last(file.fileno(), end, lines)
            return os.pread(file.fileno(), end - start, start), end
    except FileNotFoundError:
        return b"", 0


def _start_of_last(descriptor: int, end: int, lines: int) -> int:
    """Offset where the last ``lines`` lines begin, found by walking back in blocks."""
    if lines == 0:
        return end
    position, wanted = end, lines + 1  # a closing newline ends the last line, it does not begin another
    while position > 0:
        size = min(BLOCK, position)
        position -= size
        block = os.pread(descriptor, size, position)
        if position + size == end and not block.endswith(b"\n"):
            wanted -= 1
        found = block.count(b"\n")
        if found >= wanted:
            return position + _nth_newline_from_end(block, wanted) + 1
        wanted -= found
    return 0


def _nth_newline_from_end(block: bytes, count: int) -> int:
    at = len(block)
    for _ in range(count):
        at = block.rfind(b"\n", 0, at)
    return at


async def follow(
    newest: Callable[[], Path | None], lines: int, *, ended: Callable[[], bool] = lambda: False
) -> AsyncIterator[bytes]:
    """The last ``lines`` lines, then whatever is appended; moves on to the next launch's file when there is one.

    ``newest`` names the newest launch's log, or None while there has been no launch. Ends once ``ended`` says that
    nothing more will be written and everything written was read.
    """
    path, offset = newest(), 0
    if path is not None:
        text, offset = await asyncio.to_thread(tail, path, lines)
        yield text
    while True:
        # Both are asked before reading, so that the old file is read to its end before moving on or ending.
        current, over = newest(), ended()
        text, offset = await asyncio.to_thread(_read_from, path, offset)
        if text:
            yield text
        elif current != path:
            path, offset = current, 0
        elif over:
            return
        else:
            await asyncio.sleep(POLL_S)


def _read_from(path: Path | None, offset: int) -> tuple[bytes, int]:
    """What a file has from ``offset`` on, and where to read next; a file shorter than that has started over."""
    if path is None:
        return b"", offset
    try:
        with path.open("rb") as file:
            begin = offset if offset <= file.seek(0, os.SEEK_END) else 0
            text = os.pread(file.fileno(), BLOCK, begin)
            return text, begin + len(text)
    except FileNotFoundError:
        return b"", offset
