"""Where our own log leaves the process: a thread of its own, so that whoever reads it can neither stop nor break us."""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue

LINES = 10_000  # kept for a reader that is behind: a paused terminal, a slow pipe
_FAREWELL_S = 1.0  # for the last lines at the end; a reader that has stopped would never take them


class Outlet:
    """A text stream for loggers. Writing never waits and never raises.

    Lines are lost where the reader is too far behind, and where writing fails (a full disk, a closed pipe); how many
    is told once writing works again.
    """

    def __init__(self, descriptor: int, *, capacity: int = LINES) -> None:
        self._descriptor = descriptor
        self._capacity = capacity
        self._lines: SimpleQueue[str | None] = SimpleQueue()  # None ends it
        self._refused = 0  # the queue was full; written by the loggers' threads only
        self._failed = 0  # this and the next are written by the outlet's thread only
        self._told = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Take a text; returns its length, as text streams do."""
        if self._lines.qsize() < self._capacity:
            self._lines.put(text)
        else:
            self._refused += 1
        return len(text)

    def flush(self) -> None:
        """Nothing is waited for: that is the point of it."""

    def close(self) -> None:
        """Write what is left, but for no longer than a moment."""
        self._lines.put(None)
        self._thread.join(_FAREWELL_S)

    def _run(self) -> None:
        while (text := self._lines.get()) is not None:
            self._put(text)

    def _put(self, text: str) -> None:
        lost = self._refused + self._failed
        news = f"{lost - self._told} lines of this log were lost\n" if lost > self._told else ""
        data = (news + text).encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self._failed += 1
        else:
            self._told = lost
