"""Server-sent events, split as they arrive."""

from __future__ import annotations


class EventSplitter:
    """Turns a byte stream into event payloads. Comments and fields other than ``data`` are dropped.

    An event may arrive in any number of pieces, and a piece may hold any number of events. Lines end in LF or CRLF.
    """

    __slots__ = ("_data", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The payloads of the events that ``piece`` completed, in order."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        done: list[bytes] = []
        for line in lines:
            content = line.removesuffix(b"\r")
            if content.startswith(b"data:"):
                self._data.append(content[5:].removeprefix(b" "))
            elif not content and self._data:
                done.append(b"\n".join(self._data))
                self._data.clear()
        return done

    def end(self) -> list[bytes]:
        """The event that the stream's end left without its blank line: some servers leave it out behind the last."""
        return self.feed(b"\n\n")
