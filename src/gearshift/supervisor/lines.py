"""Lines out of an engine's raw output: carriage returns, halves, binary and endless lines included."""

from __future__ import annotations

import re

LINE_BYTES = 16 * 1024  # a longer line is passed on in pieces

_BREAK = re.compile(rb"\r\n|\n|\r")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class LineSplitter:
    """Cuts a byte stream at LF, CR and CR LF, wherever its chunks begin and end. Empty lines are dropped."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Lines completed by ``data``: progress bars end each state with a CR, so each state is a line."""
        *whole, rest = _BREAK.split(self._rest + data)
        while len(rest) > LINE_BYTES:
            whole.append(rest[:LINE_BYTES])
            rest = rest[LINE_BYTES:]
        self._rest = rest
        return _texts(whole)

    def end(self) -> list[str]:
        """What was left without an end of line."""
        rest, self._rest = self._rest, b""
        return _texts([rest])


def _texts(pieces: list[bytes]) -> list[str]:
    texts = (_ANSI.sub("", piece.decode("utf-8", "replace")) for piece in pieces)
    return [text for text in texts if text.strip()]
