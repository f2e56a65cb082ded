"""The load: one asyncio protocol a connection, which stamps the first event and knows the end. Costs little a byte."""

from __future__ import annotations

import asyncio
import time
from typing import Self, cast


def request(port: int, body: bytes, *, events: int, rate: float) -> bytes:
    """The bytes of one request."""
    head = (
        f"POST /v1/chat/completions?events={events}&rate={rate} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection(asyncio.Protocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] | None = None
        self.first = 0.0
        self.last = 0.0
        self.received = 0

    @classmethod
    async def open(cls, port: int) -> Self:
        _, protocol = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:

        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if not self.first and b"data: {" in data:
            self.first = now
        self.last = now
        self.received += len(data)
        if data.endswith(b"0\r\n\r\n") and self.done is not None:
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_exception(exc or ConnectionError("closed"))

    async def send(self, message: bytes) -> float:
        """Send a request, wait for the end of its answer; seconds to the first event."""
        self.done, self.first = asyncio.get_running_loop().create_future(), 0.0
        sent = time.perf_counter()
        self.transport.write(message)
        await self.done
        return self.first - sent
