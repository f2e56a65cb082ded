"""Headers over HTTP ranges from a real local server that counts what it sends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from artifacts.gguf_bytes import Entry, gguf_bytes
from fakes.ranges import FileServer, serving_files
from gearshift.artifacts.http_source import open_url, read_remote_gguf, shown
from gearshift.artifacts.hub import Hub
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
SECOND = gguf_bytes({"split.no": 1}, {"blk.1.w": ((4096, 1024), 1, 8 << 20)})
FILES = {
    "/model.gguf": MODEL,
    "/m-00001-of-00002.gguf": MODEL,
    "/m-00002-of-00002.gguf": SECOND,
    "/cut.gguf": MODEL[: 4 << 20],
}
LOGIN = {"Authorization": "Bearer t"}


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving_files(FileServer(FILES, moved={"/moved": "/model.gguf", "/away": "ftp://127.0.0.1/m"})) as server:
        yield server


@pytest.mark.parametrize("path", ["/model.gguf", "/moved", "/model.gguf?download=true"])
def test_a_remote_header_is_read_without_its_weights(server: FileServer, path: str) -> None:
    facts = read_remote_gguf(server.url + path)
    assert (len(facts.layers), facts.vocab, facts.layer_bytes) == (2, 60_000, (8 << 20, 0))
    assert server.sent < len(MODEL) / 2


def test_all_parts_of_a_split_remote_file_are_added_up(server: FileServer) -> None:
    facts = read_remote_gguf(f"{server.url}/m-00002-of-00002.gguf")
    assert facts.layer_bytes == (8 << 20, 8 << 20)


def test_a_token_is_sent_where_one_is_given(server: FileServer) -> None:
    server.key = LOGIN["Authorization"]
    assert open_url(f"{server.url}/model.gguf", LOGIN).size == len(MODEL)


def test_a_token_goes_to_no_server_that_the_address_redirects_to(server: FileServer) -> None:
    with serving_files(FileServer({}, moved={"/m": f"{server.url}/model.gguf"}, key=LOGIN["Authorization"])) as hub:
        assert open_url(f"{hub.url}/m", LOGIN).read(0, 4) == b"GGUF"
        assert (hub.keys, server.keys) == ({"Bearer t"}, {None})


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://huggingface.co/org/name/resolve/main/m.gguf", True),
        ("http://huggingface.co/org/name/resolve/main/m.gguf", False),
        ("https://huggingface.co.example.org/m.gguf", False),
        ("https://example.org/m.gguf", False),
    ],
)
def test_the_hubs_login_is_for_the_hub(url: str, *, sent: bool) -> None:
    assert Hub(token="t").login(url) == (LOGIN if sent else {})


def test_a_server_that_ignores_ranges_is_refused_before_it_has_sent_the_file(server: FileServer) -> None:
    with pytest.raises(GearshiftError, match="the server does not answer ranges"):
        read_remote_gguf(f"{server.url}/whole")
    assert server.sent < 64 << 20  # what the sockets' buffers take


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/absent", "HTTP status 404"),
        ("/away", "HTTP status 302"),
        ("/garbled", "the answer cannot be read: BadStatusLine"),
        ("/short", "the answer cannot be read: IncompleteRead"),
        ("/cut.gguf", "the tensors end at byte"),
        ("/m-00001-of-00003.gguf", "m-00001-of-00003.gguf: HTTP status 404"),
    ],
)
def test_what_goes_wrong_is_said_with_the_address(server: FileServer, path: str, words: str) -> None:
    with pytest.raises(GearshiftError, match=words) as caught:
        read_remote_gguf(server.url + path)
    assert caught.value.message.startswith(f"{server.url}{path}: ")


def test_a_refused_login_is_said(server: FileServer) -> None:
    server.key = "Bearer other"
    with pytest.raises(GearshiftError, match="HTTP status 401"):
        open_url(f"{server.url}/model.gguf", LOGIN)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "is no web address"),
        ("http://127.0.0.1:1/m", "cannot be reached: .*refused"),
        ("http://127.0.0.1:x/m", "cannot be read: InvalidURL"),
    ],
)
def test_an_address_that_leads_nowhere_is_said(url: str, words: str) -> None:
    with pytest.raises(GearshiftError, match=words):
        open_url(url)


def test_an_address_is_shown_without_its_secrets() -> None:
    assert shown("https://me:word@example.org/m.gguf?X-Signature=1#f") == "https://example.org/m.gguf"
