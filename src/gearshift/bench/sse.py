"""Server-sent events, split as they arrive."""

from __future__ import annotations

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventSplitter:
    """Turns a byte stream into event payloads. Comments and fields other than ``data`` are dropped.

    An event may arrive in any number of pieces, and a piece may hold any number of events. As the standard has it,
    lines end in LF, CRLF or CR, and a byte order mark may stand before the first.
    """

    __slots__ = ("_at_begin", "_data", "_ended_in_cr", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._at_begin = True  # a byte order mark may still come
        self._ended_in_cr = False  # the last piece did: an LF that begins the next one belongs to that line's end

    def feed(self, piece: bytes) -> list[bytes]:
        """The payloads of the events that ``piece`` completed, in order."""
        if self._at_begin or self._ended_in_cr or b"\r" in piece:  # seldom: each event costs one search for a CR
            piece = self._plain(self._without_mark(piece))
        *lines, self._rest = (self._rest + piece).split(b"\n")
        done: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                done.append(b"\n".join(self._data))
                self._data.clear()
        return done

    def end(self) -> list[bytes]:
        """The event that the stream's end left without its blank line: some servers leave it out behind the last."""
        self._ended_in_cr = False
        return self.feed(b"\n\n")

    def _plain(self, piece: bytes) -> bytes:
        """The piece with LF for every line end. A CR ends its line at once, so that no event waits for what follows."""
        if self._ended_in_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._ended_in_cr = False
        if b"\r" in piece:
            self._ended_in_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return piece

    def _without_mark(self, piece: bytes) -> bytes:
        begun = self._rest + piece
        if not self._at_begin or _BYTE_ORDER_MARK.startswith(begun):  # the mark itself may come in pieces
            return piece
        self._at_begin, self._rest = False, b""
        return begun.removeprefix(_BYTE_ORDER_MARK)
