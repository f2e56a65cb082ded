"""`gearshift plan` of a GGUF file at an address: its header alone is fetched, its answer is the copy's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from artifacts.gguf_bytes import gguf_bytes
from fakes.ranges import FileServer, serving_files

Gearshift = Callable[..., Result]
MODEL = gguf_bytes(
    {
        "general.architecture": "llama",
        "tokenizer.ggml.tokens": [f"token number {index}" for index in range(60_000)],
        "llama.block_count": 2,
        "llama.context_length": 4096,
        "llama.embedding_length": 64,
        "llama.attention.head_count": 4,
        "llama.feed_forward_length": 128,
    },
    {"blk.0.ffn_up.weight": ((4096, 1024), 1, 8 << 20), "blk.1.ffn_up.weight": ((4096, 1024), 1, 8 << 20)},
)
FLAGS = ("plan", "--engine", "llama.cpp", "--gpu", "24:936", "--weights")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving_files(FileServer({"/org/name/resolve/main/tiny.gguf": MODEL})) as server:
        yield server


def test_a_file_at_an_address_is_planned_as_its_copy_here(
    gearshift: Gearshift, server: FileServer, tmp_path: Path
) -> None:
    (tmp_path / "tiny.gguf").write_bytes(MODEL)
    here = gearshift(*FLAGS, str(tmp_path / "tiny.gguf"), "--json")
    there = gearshift(*FLAGS, f"{server.url}/org/name/resolve/main/tiny.gguf", "--json")
    assert json.loads(there.stdout) == json.loads(here.stdout)
    assert json.loads(there.stdout)["kv"]["bytes"] > 0
    assert (there.exit_code, server.sent < len(MODEL) / 2) == (0, True)


def test_the_hubs_login_goes_with_it(gearshift: Gearshift, server: FileServer) -> None:
    server.key = "Bearer hub-token"
    url = f"{server.url}/org/name/resolve/main/tiny.gguf?download=true"
    assert gearshift(*FLAGS, url, env={"HF_ENDPOINT": server.url, "HF_TOKEN": "hub-token"}).exit_code == 0
    refused = gearshift(*FLAGS, url, env={"HF_TOKEN": "hub-token"})
    assert (refused.exit_code, "HTTP status 401" in refused.stderr, None in server.keys) == (2, True, True)


def test_what_is_no_model_there_is_a_wrong_question(gearshift: Gearshift, server: FileServer) -> None:
    result = gearshift(*FLAGS, f"{server.url}/whole")
    assert result.exit_code == 2
    assert f"{server.url}/whole: the server does not answer ranges" in result.stderr
