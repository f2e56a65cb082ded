from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from fakes.broker import upstream_at
from fakes.front import Engine, Front, chat_variant, front, read_cut
from fakes.serving import until
from gearshift.gateway.relay import following

pytestmark = pytest.mark.anyio

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"model": "m", "prompt": "hi"},
    "/v1/responses": {"model": "m", "input": "hi"},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
}


@pytest.mark.parametrize("path", PATHS)
async def test_a_whole_answer_passes_and_is_recorded(client: aiohttp.ClientSession, door: Front, path: str) -> None:
    async with client.post(path, json=PATHS[path]) as response:
        assert response.status == 200
        assert (await response.json())["model"] == "served"
        assert response.headers["x-gearshift-variant"] == "m:v"
        assert response.headers["x-gearshift-queue-ms"] == "250"
        assert response.headers["x-gearshift-load-ms"] == "0"
    record = await door.record()
    assert (record.variant, record.path, record.status, record.outcome) == ("m:v", path, 200, "ok")
    assert record.tokens_out == 4
    assert record.tokens_in is not None
    assert record.first_token_s is None
    assert [lease.releases for lease in door.broker.leases] == [1]


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_passes_byte_for_byte_and_is_stamped(
    client: aiohttp.ClientSession, door: Front, fake: Engine, path: str
) -> None:
    body = {**PATHS[path], "stream": True}
    async with client.post(path, json=body) as response:
        assert response.headers["x-accel-buffering"] == "no"
        assert response.content_type == "text/event-stream"
        through = await response.read()
    async with client.post(f"http://127.0.0.1:{fake.port}{path}", json={**body, "model": "served"}) as response:
        direct = await response.read()
    # prompt_tokens differ: the question for usage makes our request longer, and the fake counts characters.
    assert [line[:60] for line in through.splitlines()] == [line[:60] for line in direct.splitlines()]
    record = await door.record()
    assert record.tokens_out == 4
    assert record.first_token_s is not None
    assert record.last_token_s is not None
    assert 0 < record.first_token_s <= record.last_token_s <= record.ended_s
    assert record.events == through.count(b"\n\n")


async def test_a_client_that_asks_for_usage_gets_its_chunk(client: aiohttp.ClientSession) -> None:
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    async with client.post("/v1/chat/completions", json=body) as response:
        assert b'"usage"' in await response.read()


async def test_passive_metering_asks_for_nothing_and_knows_nothing(fake: Engine) -> None:
    async with front(fake.port, chat_variant(meter="passive")) as door, aiohttp.ClientSession(door.url) as client:
        async with client.post("/v1/chat/completions", json={**CHAT, "stream": True}) as response:
            await response.read()
        record = await door.record()
        assert "stream_options" not in await fake.body()
        assert record.tokens_out is None


async def test_llama_cpp_is_not_asked_for_usage_it_has_timings(fake: Engine) -> None:
    async with front(fake.port, chat_variant(kind="llama.cpp")) as door, aiohttp.ClientSession(door.url) as client:
        async with client.post("/v1/chat/completions", json={**CHAT, "stream": True}) as response:
            await response.read()
        assert "stream_options" not in await fake.body()


async def test_the_engine_gets_the_bytes_but_for_the_model(client: aiohttp.ClientSession, fake: Engine) -> None:
    body = '{ "model":"m" ,"messages" : [],\t"seed":1e0, "x":"\\u00e4\u00e4"}'
    async with client.post("/v1/chat/completions", data=body.encode(), headers={"x-own": "1"}) as response:
        assert response.status == 200
    seen = (await fake.seen())[-1]
    assert seen["body"] == body.replace('"m"', '"served"')
    assert ["x-own", "1"] in seen["headers"]


async def test_no_secret_of_ours_reaches_the_engine(client: aiohttp.ClientSession, door: Front, fake: Engine) -> None:
    headers = {"Authorization": "Bearer k", "x-api-key": "k", "Cookie": "c=1", "Origin": door.url}
    async with client.post("/v1/chat/completions", json=CHAT, headers=headers) as response:
        assert response.status == 200
    names = {name.lower() for name, _ in (await fake.seen())[-1]["headers"]}
    assert not names & {"authorization", "x-api-key", "cookie", "origin"}


async def test_the_engines_own_key_is_sent(fake: Engine) -> None:
    async with front(fake.port) as door, aiohttp.ClientSession(door.url) as client:
        door.broker.upstream.headers["Authorization"] = "Bearer engine"  # type: ignore[index] # the fake's is a dict
        async with client.post("/v1/chat/completions", json=CHAT, headers={"Authorization": "Bearer k"}) as response:
            assert response.status == 200
        assert ["Authorization", "Bearer engine"] in (await fake.seen())[-1]["headers"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_engines_own_error_passes_untouched(
    client: aiohttp.ClientSession,
    door: Front,
    fake: Engine,
    stream: bool,  # noqa: FBT001 - a parameter of pytest
) -> None:
    await fake.set(answer_status=422)
    async with client.post("/v1/chat/completions", json={**CHAT, "stream": stream}) as response:
        assert response.status == 422
        document = await response.json()
    assert document["error"]["type"] == "fake_error"
    assert "src" not in document
    assert (await door.record()).outcome == "error"


EVENT_ERRORS = {
    "/v1/chat/completions": b'data: {"error":',
    "/v1/completions": b'data: {"error":',
    "/v1/responses": b'event: error\ndata: {"type":"error","code":"engine_interrupted"',
    "/v1/messages": b'event: error\ndata: {"type":"error","error":',
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("fault", ["die_mid_stream", "break_mid_stream"])
async def test_an_engine_that_dies_mid_stream_is_an_error_event_and_no_clean_end(
    client: aiohttp.ClientSession, door: Front, fake: Engine, path: str, fault: str
) -> None:
    await fake.set(**{fault: 3})
    async with client.post(path, json={**PATHS[path], "stream": True}) as response:
        assert response.status == 200
        got = await read_cut(response)
    assert got.split(b"\n\n")[-2].startswith(EVENT_ERRORS[path])
    assert b'"src":"gearshift"' in got
    assert b"[DONE]" not in got
    assert b"message_stop" not in got
    record = await door.record()
    assert record.outcome == "engine_died"
    assert [lease.releases for lease in door.broker.leases] == [1]


async def test_the_error_event_of_a_responses_stream_carries_the_next_number(
    client: aiohttp.ClientSession, fake: Engine
) -> None:
    await fake.set(die_mid_stream=3)
    async with client.post("/v1/responses", json={**PATHS["/v1/responses"], "stream": True}) as response:
        got = await read_cut(response)
    numbers = [json.loads(line.removeprefix(b"data: "))["sequence_number"] for line in _data(got)]
    assert numbers == [0, 1, 2, 3]


def _data(stream: bytes) -> list[bytes]:
    return [line for line in stream.split(b"\n") if line.startswith(b"data: ")]


def test_a_number_is_taken_from_the_last_event_sent_or_counted() -> None:
    events = b'data: {"sequence_number":7}\n\ndata: {"delta":"\\"sequence_number\\":99", "sequence_number" : 8}\n\n'
    assert following(events, 3) == 9
    assert following(b'data: {"type":"response.created"}\n\n', 3) == 3
    assert following(b"", 0) == 0


async def test_a_revoked_lease_ends_the_stream_with_its_reason(
    client: aiohttp.ClientSession, door: Front, fake: Engine
) -> None:
    await fake.set(token_ms=50, tokens=1000)
    async with client.post("/v1/chat/completions", json={**CHAT, "stream": True}) as response:
        await response.content.readany()
        door.broker.leases[0].taken_back.set_result("the drain deadline of m:v passed")
        got = await read_cut(response)
    assert b"the drain deadline of m:v passed" in got
    await until_cancelled(fake)


async def test_an_engine_that_is_not_there_is_a_503_of_ours() -> None:
    async with front(1) as door, aiohttp.ClientSession(door.url) as client:
        status, document = await fetch(client, "/v1/messages", PATHS["/v1/messages"])
    assert status == 503
    assert document["type"] == "error"
    assert document["src"] == "gearshift"
    assert "m:v" in document["error"]["message"]


@pytest.mark.parametrize("status", ["000 Odd", "101 Switching Protocols", "999 Odd"])
async def test_a_status_that_is_no_final_answer_is_a_503_of_ours(status: str) -> None:
    async with answering(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()) as client:
        code, document = await fetch(client, "/v1/chat/completions", CHAT)
    assert code == 503
    assert status[:3].lstrip("0") in document["error"]["message"]


@pytest.mark.parametrize("said", [b"\x07" * 4000, b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000 + b"\r\n\r\n"])
async def test_what_an_engine_says_that_is_no_http_is_not_quoted_at_length(said: bytes) -> None:
    async with answering(said) as client:
        code, document = await fetch(client, "/v1/chat/completions", CHAT)
    assert code == 503
    assert len(document["error"]["message"]) < 200
    assert "\n" not in document["error"]["message"]


async def test_the_503_of_a_dead_engine_carries_controls_reason(client: aiohttp.ClientSession, door: Front) -> None:
    door.broker.upstream = upstream_at(1)
    door.broker.open = False
    async with asyncio.TaskGroup() as group:
        task = group.create_task(fetch(client, "/v1/chat/completions", CHAT))
        await until(lambda: bool(door.broker.tickets))
        lease = door.broker.grant(door.broker.tickets[0])
        lease.taken_back.get_loop().call_soon(lease.taken_back.set_result, "CUDA error: out of memory")
    status, document = task.result()
    assert status == 503
    assert "CUDA error: out of memory" in document["error"]["message"]


@asynccontextmanager
async def answering(said: bytes) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a gateway whose engine says this to every request, and closes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    odd = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with odd, front(odd.sockets[0].getsockname()[1]) as door, aiohttp.ClientSession(door.url) as client:
        yield client


async def fetch(client: aiohttp.ClientSession, path: str, body: object) -> tuple[int, Any]:
    async with client.post(path, json=body) as response:
        return response.status, await response.json()


async def until_cancelled(fake: Engine) -> None:
    """The engine noticed that its client went away."""
    for _ in range(200):
        if (await fake.report())["cancelled"] == 1:
            return
    raise TimeoutError
