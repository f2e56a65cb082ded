"""One answer to one client: not begun, begun, whole. What is not made whole is cut off by the server below us."""

from __future__ import annotations

from typing import Final

import msgspec

from gearshift.domain.errors import GearshiftError
from gearshift.edge.asgi import Header, Send
from gearshift.edge.errors import Dialect, body_for, event_for

_EVENT_STREAM: Final[list[Header]] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Reply:
    """Sends the answer's parts in order and knows which were sent.

    Returning from the ASGI call while ``begun`` but not ``whole`` makes the server close the connection without the
    last chunk: the client's HTTP library sees an incomplete body, never a clean end.
    """

    __slots__ = ("_extra", "begun", "next_number", "send", "status", "streams", "whole")

    def __init__(self, send: Send, extra: list[Header]) -> None:
        self.send = send  # for the hot loop; everybody else uses the methods
        self._extra = extra  # on every answer, whoever made it: CORS
        self.begun = False
        self.streams = False  # what was begun is an event stream
        self.whole = False
        self.status = 0
        self.next_number = 0  # of the next event, where a dialect numbers them

    async def start(self, status: int, headers: list[Header]) -> None:
        """Status and headers."""
        self.begun = True
        self.status = status
        await self.send({"type": "http.response.start", "status": status, "headers": headers + self._extra})

    async def part(self, body: bytes) -> None:
        """Some bytes of the body; more follow."""
        await self.send({"type": "http.response.body", "body": body, "more_body": True})

    async def finish(self, body: bytes = b"") -> None:
        """The last bytes and the clean end."""
        self.whole = True  # before sending: the server reports a finished answer as a disconnect
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    async def answer(self, status: int, headers: list[Header], body: bytes) -> None:
        """A whole answer at once."""
        await self.start(status, [*headers, (b"content-length", b"%d" % len(body))])
        await self.finish(body)

    async def json(self, status: int, document: object) -> None:
        """A whole JSON answer at once."""
        await self.answer(status, [(b"content-type", b"application/json")], msgspec.json.encode(document))

    async def comment(self, text: str) -> None:
        """An SSE comment line, ignored by every client; begins an event stream where nothing was sent yet."""
        if not self.begun:
            await self.start(200, _EVENT_STREAM)
            self.streams = True
        line = text.replace("\n", " ").replace("\r", " ")
        await self.part(f": {line}\n\n".encode())

    async def fail(self, error: GearshiftError, dialect: Dialect) -> None:
        """The error in the form that still fits: a whole answer, an event without a clean end, or just the cut."""
        if not self.begun:
            await self.answer(*body_for(error, dialect))
        elif self.streams:
            await self.part(event_for(error, dialect, self.next_number))
