"""Headers over HTTP ranges from a real local server that counts what it sends."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from artifacts.gguf_bytes import Entry, gguf_bytes
from gearshift.artifacts.http_source import open_url, read_remote_gguf
from gearshift.domain.errors import GearshiftError

WORDS = [f"token number {index}" for index in range(60_000)]  # a header of more than one window
METADATA: dict[str, Entry] = {
    "general.architecture": "llama",
    "tokenizer.ggml.tokens": WORDS,
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
}
MODEL = gguf_bytes(METADATA, {"blk.0.w": ((4096, 1024), 1, 8 << 20)})


class RangeServer(BaseHTTPRequestHandler):
    """Serves MODEL by ranges, whole at /whole, behind a token at /private, and by a redirect at /moved."""

    sent = 0

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/model.gguf")
            self.end_headers()
        elif self.path == "/private" and self.headers.get("Authorization") != "Bearer t":
            self.send_error(401)
        elif self.path == "/absent":
            self.send_error(404)
        else:
            self._send()

    def _send(self) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        assert match is not None
        first, last = int(match[1]), min(int(match[2]), len(MODEL) - 1)
        whole = self.path == "/whole"
        body = MODEL[:4096] if whole else MODEL[first : last + 1]
        self.send_response(200 if whole else 206)
        self.send_header("Content-Length", str(len(body)))
        if not whole:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(MODEL)}")
        self.end_headers()
        self.wfile.write(body)
        type(self).sent += len(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Keep the test output clean."""


@pytest.fixture
def address() -> Iterator[str]:
    RangeServer.sent = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), RangeServer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)


@pytest.mark.parametrize("path", ["/model.gguf", "/moved"])
def test_a_remote_header_is_read_without_its_weights(address: str, path: str) -> None:
    facts = read_remote_gguf(address + path)
    assert (len(facts.layers), facts.vocab, facts.layer_bytes) == (2, 60_000, (8 << 20, 0))
    assert RangeServer.sent < len(MODEL) / 2


def test_a_token_is_sent_where_one_is_given(address: str) -> None:
    assert open_url(f"{address}/private", {"Authorization": "Bearer t"}).size == len(MODEL)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/private", "HTTP status 401"),
        ("/absent", "HTTP status 404"),
        ("/whole", "the server does not answer ranges"),
    ],
)
def test_what_the_server_refuses_is_said(address: str, path: str, words: str) -> None:
    with pytest.raises(GearshiftError, match=words):
        read_remote_gguf(address + path)


@pytest.mark.parametrize(
    ("url", "words"), [("file:///etc/passwd", "is no web address"), ("http://127.0.0.1:1/m", "cannot be reached")]
)
def test_an_address_that_leads_nowhere_is_said(url: str, words: str) -> None:
    with pytest.raises(GearshiftError, match=words):
        open_url(url)
