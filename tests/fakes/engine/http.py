"""HTTP/1.1 by hand: one connection, its requests and answers. Import-light, which http.server is not."""

import contextlib
import json
import select
import socket
import time
from collections.abc import Mapping
from typing import Any, BinaryIO


class GoneError(Exception):
    """The peer closed the connection."""


class Request:
    """One request, its body read whole (Content-Length or chunked)."""

    def __init__(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.method = method
        self.target = target
        self.path = target.partition("?")[0]
        self.headers = headers
        self.body = body

    def header(self, name: str) -> str:
        """The last value of a header, or an empty string."""
        return next((value for key, value in reversed(self.headers) if key.lower() == name), "")

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; an empty one where it is not."""
        try:
            document = json.loads(self.body)
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}


class Connection:
    """A socket seen as requests in, answers out. Writing to a peer that went away raises GoneError."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reader: BinaryIO = sock.makefile("rb")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self) -> Request | None:
        """The next request, or None at a clean end."""
        try:
            line = self.reader.readline(65536)
            if not line.strip():
                return None
            method, target, _ = line.decode("latin-1").split(" ", 2)
            headers = self._headers()
            return Request(method, target, headers, self._body({name.lower(): value for name, value in headers}))
        except (OSError, ValueError):
            return None

    def _headers(self) -> list[tuple[str, str]]:
        headers = []
        while (line := self.reader.readline(65536).decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            headers.append((name, value.strip()))
        return headers

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self.reader.read(int(headers.get("content-length", "0")))
        body = bytearray()
        while size := int(self.reader.readline().split(b";")[0], 16):
            body += self.reader.read(size)
            self.reader.readline()
        self._headers()
        return bytes(body)

    def write(self, data: bytes) -> None:
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise GoneError from error

    def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """A whole answer with its length."""
        head = f"HTTP/1.1 {status} Fake\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.write(head.encode() + body)

    def answer_json(self, document: object, status: int = 200) -> None:
        self.answer(status, json.dumps(document).encode())

    def begin_stream(self) -> None:
        """The head of a chunked event stream."""
        self.write(b"HTTP/1.1 200 Fake\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.write(b"%x\r\n%s\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self.write(b"0\r\n\r\n")

    def rest(self, seconds: float) -> None:
        """Sleep, but notice a peer that goes away: raises GoneError within the sleep."""
        deadline = time.monotonic() + seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select([self.sock], [], [], left) if self.sock.fileno() >= 0 else ([], [], [])
            if readable and self._closed():
                raise GoneError
            if readable:  # the peer pipelines; it has not gone
                time.sleep(min(left, 0.01))
            if left == 0:
                return

    def _closed(self) -> bool:
        try:
            return self.sock.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def close(self) -> None:
        self.reader.close()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
