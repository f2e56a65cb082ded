"""One launch's output: every byte to a file, every line to the fold, the last lines kept for messages."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import structlog

from gearshift.domain.paths import variant_logs
from gearshift.domain.startup import LogFold, StartReport
from gearshift.supervisor.lines import LineSplitter

log = structlog.get_logger(__name__)

KEPT_LAUNCHES = 10
FILE_BYTES = 64 * 1024**2  # a longer log starts over; the part before is kept once, as ".old"
TAIL_LINES = 50
_CHUNK = 64 * 1024
_LAST_LINE_S = 0.2
_LOOK_MS = 100  # how often the drain looks whether it was abandoned


def new_log_path(logs: Path, variant: str, launch: str) -> Path:
    """A path for the next launch's log, named so that names sort by time; old logs beyond the last ten are removed.

    A folder that cannot be written is no error here: the log then goes nowhere, and the engine runs on.
    """
    folder = variant_logs(logs, variant)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in sorted(folder.glob("*.log"))[: 1 - KEPT_LAUNCHES]:
            old.unlink(missing_ok=True)
            old.with_suffix(".old").unlink(missing_ok=True)
    except OSError:
        pass
    return folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{launch}.log"


class LogFile:
    """An append-only file that may fail: what cannot be written is dropped, counted and told at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0
        self.lost_bytes = 0
        self._file = self._open()

    def _open(self) -> BinaryIO | None:
        try:
            return self._path.open("wb", buffering=0)
        except OSError:
            return None

    def write(self, data: bytes) -> None:
        """Never raises: a full disk must not stop the drain, which would block the engine."""
        try:
            if self._written > FILE_BYTES:
                self._start_over()
            written = self._file.write(data) if self._file else 0
        except OSError:
            written = 0
        self._written += written or 0
        self.lost_bytes += len(data) - (written or 0)

    def end(self) -> None:
        """Close for good, and say so where the file does not hold everything."""
        self.close()
        if self.lost_bytes:
            log.warning("engine log not written whole", path=str(self._path), lost_bytes=self.lost_bytes)

    def _start_over(self) -> None:
        self.close()
        self._path.replace(self._path.with_suffix(".old"))
        self._file, self._written = self._open(), 0

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None


class LaunchLog:
    """Drains an engine's output in a thread of its own: neither a slow disk nor a flood of lines stalls the loop.

    The thread alone writes the fold; readers see the newest whole report.
    """

    def __init__(self, source: int, file: LogFile, fold: LogFold, on_line: Callable[[], None]) -> None:
        """``source`` is the pipe's read end and belongs to the log from now on; ``on_line`` is called in the thread."""
        self._source = source
        self._file = file
        self._fold = fold
        self._on_line = on_line
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._abandoned = False
        self._parser_failed = False
        self.last_line_at = time.monotonic()
        self.finished = threading.Event()
        self._thread = threading.Thread(target=self._drain, name="engine log", daemon=True)
        self._thread.start()

    @property
    def report(self) -> StartReport:
        return self._fold.report

    @property
    def tail(self) -> Sequence[str]:
        """The last lines, oldest first."""
        return tuple(self._tail.copy())

    def close(self) -> None:
        """Wait for the last line; give up on a pipe that somebody outside the tree still holds. Blocks, but briefly."""
        if not self.finished.wait(_LAST_LINE_S):
            self._abandoned = True
            self.finished.wait()

    def _drain(self) -> None:
        splitter = LineSplitter()
        try:
            while data := self._read():
                self._file.write(data)
                self._take(splitter.feed(data))
            self._take(splitter.end())
        finally:
            os.close(self._source)
            self._file.end()
            self.finished.set()
            self._on_line()

    def _read(self) -> bytes:
        poll = select.poll()  # select(2) ends at descriptor 1023, which a busy gateway passes
        poll.register(self._source, select.POLLIN)
        while not self._abandoned:
            if poll.poll(_LOOK_MS):
                return os.read(self._source, _CHUNK)
        return b""

    def _take(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._tail.append(line)
            self._feed(line)
        if lines:
            self.last_line_at = time.monotonic()
            self._on_line()

    def _feed(self, line: str) -> None:
        if self._parser_failed:
            return
        try:
            self._fold = self._fold.feed(line)
        except Exception:
            self._parser_failed = True
            log.exception("log parser failed; this start has no stages from here on", line=line)
