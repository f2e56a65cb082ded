"""A file server on loopback that answers ranges, counts what it sends, and misbehaves by path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

from fakes.loopback import QuietHandler, serving_http

ENDLESS = 1 << 40  # bytes that /whole promises, and sends for as long as they are taken


@dataclass
class FileServer:
    """``files`` by path. A path below ``moved`` redirects to the address kept there; ``key`` opens what it serves."""

    files: Mapping[str, bytes]
    moved: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    url: str = ""
    sent: int = 0
    keys: set[str | None] = field(default_factory=set)  # that came with requests


@contextmanager
def serving_files(server: FileServer) -> Iterator[FileServer]:
    """The server on a port of its own until the end of the block."""

    class Handler(_Handler):
        served = server

    with serving_http(Handler) as server.url:
        yield server


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    served: ClassVar[FileServer]

    def do_GET(self) -> None:
        server, path = self.served, self.path.partition("?")[0]
        server.keys.add(self.headers.get("Authorization"))
        if path in server.moved:
            self.send_response(302)
            self.send_header("Location", server.moved[path])
            self.end_headers()
        elif server.key is not None and self.headers.get("Authorization") != server.key:
            self.send_error(401)
        elif path == "/whole":
            self._everything()
        elif path == "/garbled":
            self.wfile.write(b"no HTTP at all\r\n\r\n")
        elif path == "/short":
            self._part(next(iter(server.files.values())), promised=1)
        elif path in server.files:
            self._part(server.files[path])
        else:
            self.send_error(404)

    def _part(self, data: bytes, *, promised: int = 0) -> None:
        """The range that was asked for, ``promised`` bytes fewer than it says."""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        assert match is not None
        first, last = int(match[1]), min(int(match[2]), len(data) - 1)
        self.send_response(206)
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.end_headers()
        body = data[first : last + 1 - promised]
        self.wfile.write(body)
        self.served.sent += len(body)

    def _everything(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(ENDLESS))
        self.end_headers()
        try:
            while True:
                self.served.sent += self.wfile.write(bytes(1 << 16))
        except OSError:
            return
