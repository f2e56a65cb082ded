"""A program on a pseudo-terminal: what a person at the keyboard sees and types."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class Terminal:
    """The person's end."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self.screen = ""
        self._seen = 0
        self._descriptor = descriptor

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def wait_for(self, text: str, within_s: float = 10) -> None:
        """Reads until the text comes after what was waited for before. Raises AssertionError with the screen so far."""
        deadline = time.monotonic() + within_s
        while (at := self.screen.find(text, self._seen)) < 0:
            if time.monotonic() > deadline or not self._read(deadline):
                message = f"{text!r} did not appear in {self.screen!r}"
                raise AssertionError(message)
        self._seen = at + len(text)

    def end(self, within_s: float = 10) -> int:
        """Reads to the end; the exit status."""
        deadline = time.monotonic() + within_s
        while self._read(deadline):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        """One piece of output; False at the end of the program's output or at the deadline."""
        ready, _, _ = select.select([self._descriptor], [], [], max(0, deadline - time.monotonic()))
        try:
            data = os.read(self._descriptor, 4096) if ready else b""
        except OSError:  # EIO: the last program on the terminal has ended
            data = b""
        self.screen += data.decode(errors="replace")
        return bool(data)


@contextmanager
def on_terminal(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Iterator[Terminal]:
    """Runs a program with a terminal of its own as standard input, output and error; killed on the way out."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, env={**env, "TERM": "xterm"}, cwd=cwd, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
