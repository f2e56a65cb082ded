"""The engine of the benchmark: an HTTP server on a bare asyncio protocol, faster than anything in front of it.

``POST /v1/chat/completions?events=N&rate=R`` streams N events of about 210 bytes, R a second (0 = at once).
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast
from urllib.parse import parse_qs

import uvloop

_PAYLOAD = (
    b'data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1796003811,'
    b'"model":"bench","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
)
EVENT = b"%x\r\n%b\r\n" % (len(_PAYLOAD), _PAYLOAD)
_DONE = b"data: [DONE]\n\n"
END = b"%x\r\n%b\r\n0\r\n\r\n" % (len(_DONE), _DONE)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Engine(asyncio.Protocol):
    """One connection; requests come one at a time with a Content-Length."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:

        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self.head = b""
        self.missing = 0
        self.target = b""

    def data_received(self, data: bytes) -> None:
        if self.missing:
            self.missing -= len(data)
        else:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            head, body = self.head[:end].lower(), len(self.head) - end - 4
            self.target, self.head = self.head.split(b" ", 2)[1], b""
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            self.missing = int(length or 0) - body
        if not self.missing:
            self.answer()

    def answer(self) -> None:
        query = parse_qs(self.target.partition(b"?")[2])
        events, rate = int(query[b"events"][0]), float(query[b"rate"][0])
        if rate:
            self.transport.write(HEAD)
            loop = asyncio.get_running_loop()
            self.tick(loop, loop.time(), 1 / rate, events)
        else:
            self.transport.write(HEAD + EVENT * events + END)

    def tick(self, loop: asyncio.AbstractEventLoop, due: float, gap: float, left: int) -> None:
        if self.transport.is_closing():
            return
        if not left:
            self.transport.write(END)
            return
        self.transport.write(EVENT)
        loop.call_at(due + gap, self.tick, loop, due + gap, gap, left - 1)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
