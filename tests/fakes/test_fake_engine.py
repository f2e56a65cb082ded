"""The fake engine is what other tests stand on: its answers, streams and memory of requests."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from fakes.engine_argv import fake_engine_argv, fake_variant
from fakes.living import wait_for
from fakes.serving import healthy
from gearshift.supervisor.ports import PortPicker

pytestmark = pytest.mark.anyio
PORTS = PortPicker()


@contextmanager
def engine(**flags: Any) -> Iterator[str]:
    """A running fake engine; its base URL."""
    port = PORTS.pick()
    with subprocess.Popen(fake_engine_argv(port, **flags), stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: healthy(port))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def events(http: aiohttp.ClientSession, url: str, **body: Any) -> list[str]:
    async with http.post(url, json={"model": "fake", "stream": True, **body}) as answer:
        text = await answer.text()
    return [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]


async def test_a_chat_streams_its_tokens_and_the_usage_that_was_asked_for(http: aiohttp.ClientSession) -> None:
    with engine(tokens=5, tokens_per_chunk=2, reasoning=1) as url:
        *chunks, done = await events(http, f"{url}/v1/chat/completions", stream_options={"include_usage": True})
        deltas = [choice["delta"] for chunk in chunks for choice in json.loads(chunk)["choices"]]
        assert done == "[DONE]"
        assert [delta["content"] for delta in deltas if delta.get("content")] == ["t0 t1 ", "t2 t3 ", "t4 "]
        assert json.loads(chunks[-1])["usage"]["completion_tokens"] == 6
        plain = await events(http, f"{url}/v1/chat/completions", max_tokens=1)
        assert not any("usage" in chunk for chunk in plain)


@pytest.mark.parametrize(
    ("path", "last"),
    [("/v1/completions", "[DONE]"), ("/v1/responses", "response.completed"), ("/v1/messages", "message_stop")],
)
async def test_every_dialect_ends_in_its_own_way(http: aiohttp.ClientSession, path: str, last: str) -> None:
    with engine() as url:
        assert last in (await events(http, url + path))[-1]


async def test_a_tool_is_called_when_there_is_one(http: aiohttp.ClientSession) -> None:
    with engine() as url:
        body = {"model": "fake", "tools": [{}]}
        async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
            message = (await answer.json())["choices"][0]["message"]
        assert message["tool_calls"][0]["function"]["name"] == "lookup"


async def test_a_cut_stream_has_no_end(http: aiohttp.ClientSession) -> None:
    with engine(break_mid_stream=2) as url, pytest.raises(aiohttp.ClientPayloadError):
        await events(http, f"{url}/v1/chat/completions")


async def test_it_remembers_what_it_was_sent_and_who_left(http: aiohttp.ClientSession) -> None:
    with engine(token_ms=10_000) as url:
        body = json.dumps({"model": "fake", "stream": True}).encode()
        async with http.post(f"{url}/v1/chat/completions", data=body) as answer:
            await answer.content.readany()
        seen: dict[str, Any] = {"cancelled": 0}
        while not seen["cancelled"]:
            async with http.get(f"{url}/__seen") as answer:
                seen = await answer.json()
        assert (seen["started"], seen["finished"], seen["active"]) == (1, 0, 0)
        assert seen["requests"][0]["body_sha256"] == hashlib.sha256(body).hexdigest()


async def test_multipart_parts_are_told_by_size(http: aiohttp.ClientSession) -> None:
    with engine() as url:
        form = aiohttp.FormData({"model": "fake"})
        form.add_field("file", b"x" * 100_000, filename="a.wav")
        async with http.post(f"{url}/v1/audio/transcriptions", data=form) as answer:
            parts = (await answer.json())["parts"]
        assert [(part["name"], part["bytes"]) for part in parts] == [("model", 4), ("file", 100_000)]


async def test_a_websocket_echoes(http: aiohttp.ClientSession) -> None:
    with engine() as url:
        async with http.ws_connect(f"{url}/ws") as socket:
            for size in (5, 300, 70_000):
                await socket.send_str("x" * size)
                assert await socket.receive_str() == "x" * size


async def test_the_script_can_be_changed_while_it_runs(http: aiohttp.ClientSession) -> None:
    with engine() as url:
        async with http.post(f"{url}/__set", json={"answer_status": 418}):
            pass
        async with http.post(f"{url}/v1/completions", json={"model": "fake"}) as answer:
            assert answer.status == 418


@pytest.mark.parametrize(("style", "prefix"), [("vllm", "vllm:"), ("llama.cpp", "llamacpp:")])
async def test_metrics_have_the_names_of_the_engine_it_plays(
    http: aiohttp.ClientSession, style: str, prefix: str
) -> None:
    with engine(style=style) as url:
        await events(http, f"{url}/v1/completions")
        async with http.get(f"{url}/metrics") as answer:
            lines = (await answer.text()).splitlines()
    assert f"{prefix}spec_decode_num_drafts_total 3" in lines


def test_a_variant_runs_it_by_a_command_with_a_port_slot() -> None:
    command = fake_variant("qwen", "a", load_seconds=0.5, ignore_sigterm=True).command or ()
    assert command[-5:] == ("--load-seconds", "0.5", "--ignore-sigterm", "--served", "qwen")
    assert "${port}" in command
