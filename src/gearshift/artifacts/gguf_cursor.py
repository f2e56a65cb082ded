"""A forward cursor over a GGUF header that reads its source in windows and never past the end."""

from __future__ import annotations

import struct
from typing import NoReturn

from gearshift.artifacts.damage import fail
from gearshift.artifacts.source import ByteSource

_WINDOW = 1 << 20  # bytes fetched at once: one page-cache copy, or one HTTP range
_LONGEST_STRING = 1 << 26  # a chat template is kilobytes; a length beyond this is damage
_LENGTH = struct.Struct("<Q")


class Cursor:
    """Reads forward; every method raises GearshiftError where the file ends too early."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._window = b""
        self._base = 0  # file offset of the window's first byte
        self.position = 0  # file offset of the next byte

    @property
    def left(self) -> int:
        return self._source.size - self.position

    def fail(self, message: str, *, at: int | None = None) -> NoReturn:
        """Complain about this file at byte ``at`` (default: here)."""
        fail(self._source.name, f"byte {self.position if at is None else at}: {message}")

    def take(self, count: int, what: str) -> bytes:
        start = self._fill(count, what)
        self.position += count
        return self._window[start : start + count]

    def unpack(self, layout: struct.Struct, what: str) -> int:
        """One unsigned integer, for counts and type numbers."""
        start = self._fill(layout.size, what)
        self.position += layout.size
        return int(layout.unpack_from(self._window, start)[0])

    def unpack_any(self, layout: struct.Struct, what: str) -> int | float:
        start = self._fill(layout.size, what)
        self.position += layout.size
        value: int | float = layout.unpack_from(self._window, start)[0]
        return value

    def string(self, what: str) -> str:
        length = self.unpack(_LENGTH, f"the length of {what}")
        if length > _LONGEST_STRING:
            self.fail(f"{what} claims to be {length} bytes long", at=self.position - _LENGTH.size)
        return self.take(length, what).decode("utf-8", "replace")

    def skip(self, count: int, what: str) -> None:
        """Step over ``count`` bytes without reading them."""
        if count > self.left:
            self._fail_short(count, what)
        self.position += count

    def skip_strings(self, count: int, what: str) -> None:
        """Step over ``count`` strings; the hot loop of a large vocabulary, so it is written flat."""
        unpack, size = _LENGTH.unpack_from, _LENGTH.size
        while count:
            start = self._fill(size, what)
            window, last, here = self._window, len(self._window) - size, start
            while count and here <= last:
                here += size + unpack(window, here)[0]
                count -= 1
            self.position += here - start
            if self.left < 0:
                self._fail_short(-self.left, what)

    def _fill(self, count: int, what: str) -> int:
        """Make ``count`` bytes available and return where they begin in the window."""
        start = self.position - self._base
        if start >= 0 and start + count <= len(self._window):
            return start
        if count > self.left:
            self._fail_short(count, what)
        self._base = self.position
        self._window = self._source.read(self.position, max(count, min(_WINDOW, self.left)))
        if len(self._window) < count:  # the file shrank, or the server sent less than it promised
            self._fail_short(count, what)
        return 0

    def _fail_short(self, count: int, what: str) -> NoReturn:
        self.fail(f"the file ends inside {what}: {count} bytes expected, {max(self.left, 0)} left")
