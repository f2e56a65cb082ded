"""HTTP for the truth server: a raw asyncio protocol, so that it is never what limits a measurement."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gearshift.bench.truth.engine import Engine, Generation
from gearshift.bench.truth.render import PATHS
from gearshift.bench.truth.request import RefusedKeyError, read_request
from gearshift.bench.truth.script import Script


@dataclass(frozen=True, slots=True)
class TruthServer:
    """A running truth server."""

    url: str
    engine: Engine


@asynccontextmanager
async def serve(script: Script, *, port: int = 0) -> AsyncIterator[TruthServer]:
    """Serve ``script`` on 127.0.0.1 while the block runs; port 0 picks a free one."""
    engine = Engine(script)
    connections: set[_Connection] = set()
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(engine, connections), "127.0.0.1", port, backlog=1024
    )
    bound = server.sockets[0].getsockname()[1]
    try:
        yield TruthServer(f"http://127.0.0.1:{bound}", engine)
    finally:
        server.close()
        for connection in tuple(connections):
            connection.break_off()
        await server.wait_closed()


class _Connection(asyncio.Protocol):
    """One connection: requests one after the other, bodies by Content-Length, answers in chunks."""

    def __init__(self, engine: Engine, connections: set[_Connection]) -> None:
        self._engine = engine
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._generation: Generation | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        if self._generation is not None:
            self._generation.abandon()
        self._transport = None
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._read()

    def begin(self, content_type: str) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._write(head.encode())

    def send(self, data: bytes) -> None:
        self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        self._write(b"0\r\n\r\n")
        self._generation = None
        self._read()  # a pipelined request may be waiting

    def break_off(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _read(self) -> None:
        if self._generation is not None:
            return
        head_end = self._received.find(b"\r\n\r\n")
        if head_end < 0:
            return
        lines = bytes(self._received[:head_end]).decode("latin-1").split("\r\n")
        length = _content_length(lines[1:])
        if len(self._received) < head_end + 4 + length:
            return
        body = bytes(self._received[head_end + 4 : head_end + 4 + length])
        del self._received[: head_end + 4 + length]
        _, path, _ = lines[0].split(" ", 2)
        self._handle(path.partition("?")[0], body)

    def _handle(self, path: str, body: bytes) -> None:
        if path in PATHS:
            self._generate(path, body)
        elif path == "/metrics":
            self._reply(200, self._engine.metrics().encode(), "text/plain; version=0.0.4")
        elif (document := self._document(path, body)) is None:
            self._reply(404, b'{"error":{"message":"no such path","code":404}}')
        else:
            self._reply(200, json.dumps(document).encode())

    def _generate(self, path: str, body: bytes) -> None:
        try:
            asked = read_request(path, body, self._engine.script, self._engine.vocabulary)
        except RefusedKeyError as error:
            self._reply(error.status, json.dumps({"error": {"message": str(error), "code": error.status}}).encode())
            return
        except ValueError as error:
            self._reply(400, json.dumps({"error": {"message": str(error), "code": 400}}).encode())
            return
        if len(asked.prompt) + asked.tokens > self._engine.script.context:
            self._reply(400, b'{"error":{"message":"the prompt exceeds the context","code":400}}')
            return
        self._generation = self._engine.start(asked, self)

    def _document(self, path: str, body: bytes) -> object | None:
        script = self._engine.script
        if path == "/v1/models":
            return {"data": [{"id": script.model, "object": "model", "max_model_len": script.context}]}
        if path == "/health":
            return {"status": "ok"}
        if path == "/version" and script.flavour == "vllm":
            return {"version": "truth"}
        if path == "/props" and script.flavour == "llama.cpp":
            return {
                "build_info": "truth",
                "total_slots": script.slots or 64,
                "default_generation_settings": {"n_ctx": script.context},
            }
        return self._tokens(path, body)

    def _tokens(self, path: str, body: bytes) -> object | None:
        vocabulary = self._engine.vocabulary
        if path == "/tokenize":
            asked = json.loads(body)
            ids = vocabulary.encode(asked.get("prompt", asked.get("content", "")))
            return {"tokens": ids, "count": len(ids)}
        if path == "/detokenize":
            text = vocabulary.decode(json.loads(body)["tokens"])
            return {"prompt": text} if self._engine.script.flavour == "vllm" else {"content": text}
        return None

    def _reply(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        reason = {200: "OK", 400: "Bad Request", 404: "Not Found", 422: "Unprocessable"}[status]
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._write(head.encode() + body)
        self._read()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _content_length(headers: list[str]) -> int:
    for header in headers:
        name, _, value = header.partition(":")
        if name.lower() == "content-length":
            return int(value)
    return 0
