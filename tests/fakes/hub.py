"""A hub on loopback: the few endpoints huggingface_hub uses, with ranges, and faults that a test asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

from fakes.loopback import QuietHandler, serving_http

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """One repository at one commit. ``files`` whose name is in ``large`` have a published hash.

    ``cut_after``: the next download of a file ends after so many bytes. ``ignores_ranges``: it always sends all.
    """

    files: dict[str, bytes]
    repository: str = "org/name"
    large: frozenset[str] = frozenset()
    cut_after: dict[str, int] = field(default_factory=dict)
    ignores_ranges: bool = False
    gated: bool = False
    url: str = ""
    ranges: list[str] = field(default_factory=list)  # of every GET of a file, "" without one
    tokens: set[str | None] = field(default_factory=set)

    def etag(self, name: str) -> str:
        """A SHA-256 for large files, git's blob id for others."""
        data = self.files[name]
        if name in self.large:
            return hashlib.sha256(data).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324 - git's own


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """The hub on a port of its own until the end of the block."""

    class Handler(_Handler):
        served = hub

    with serving_http(Handler) as hub.url:
        yield hub


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    served: ClassVar[FakeHub]

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        hub = self.served
        hub.tokens.add(self.headers.get("Authorization"))
        path = self.path.partition("?")[0]
        if hub.gated:
            self._plain(403, {"X-Error-Code": "GatedRepo"}, b"")
        elif path in {f"/api/models/{hub.repository}/revision/{name}" for name in ("main", COMMIT)}:
            self._plain(200, {"Content-Type": "application/json"}, self._info())
        elif path.startswith(f"/{hub.repository}/resolve/{COMMIT}/"):
            self._file(path.split("/", 5)[5], body=body)
        else:
            self._plain(404, {"X-Error-Code": "RepoNotFound"}, b"")

    def _info(self) -> bytes:
        siblings = [
            {"rfilename": name, "size": len(data)}
            | (
                {"lfs": {"sha256": self.served.etag(name), "size": len(data), "pointerSize": 134}}
                if name in self.served.large
                else {}
            )
            for name, data in self.served.files.items()
        ]
        return json.dumps({"id": self.served.repository, "sha": COMMIT, "siblings": siblings}).encode()

    def _file(self, name: str, *, body: bool) -> None:
        hub = self.served
        if name not in hub.files:
            self._plain(404, {"X-Error-Code": "EntryNotFound"}, b"")
            return
        data, asked = hub.files[name], self.headers.get("Range", "")
        start = 0 if hub.ignores_ranges or not asked else int(asked.removeprefix("bytes=").partition("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{hub.etag(name)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(data) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if body:
            hub.ranges.append(asked)
            self.wfile.write(data[start : hub.cut_after.pop(name, len(data))])

    def _plain(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
