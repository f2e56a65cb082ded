"""Queued and loading requests: keep-alive comments, refusals in every form, clients that leave."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakes.front import Engine, Front, read_cut
from fakes.serving import until
from gearshift.domain.errors import DrainingError, Failure, LoadFailedError, NotResidentError, QueueFullError
from gearshift.domain.settings import SideRule

pytestmark = pytest.mark.anyio

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
STREAMS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {**CHAT, "stream": True},
    "/v1/completions": {"model": "m", "prompt": "hi", "stream": True},
    "/v1/responses": {"model": "m", "input": "hi", "stream": True},
    "/v1/messages": {**CHAT, "max_tokens": 9, "stream": True},
}
BROKEN = LoadFailedError("m:v could not be loaded: CUDA error: out of memory", failure=Failure("out of memory"))


async def waiting(door: Front) -> None:
    door.broker.open = False
    await door.reconfigure(keepalive_s=0.02)


@pytest.mark.parametrize("path", STREAMS)
async def test_a_waiting_stream_gets_comments_and_then_the_answer(
    client: aiohttp.ClientSession, door: Front, path: str
) -> None:
    await waiting(door)
    async with client.post(path, json=STREAMS[path]) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        assert await response.content.readuntil(b"\n\n") == b": loading weights 40 %\n\n"
        assert await response.content.readuntil(b"\n\n") == b": loading weights 40 %\n\n"
        door.broker.grant(door.broker.tickets[0], load_s=1.5)
        rest = await response.read()
    events = [event for event in rest.split(b"\n\n") if event != b": loading weights 40 %"]
    assert events[0] == b": x-gearshift-variant=m:v x-gearshift-queue-ms=250 x-gearshift-load-ms=1500"
    assert events[1].startswith((b"data: {", b"event: "))
    assert (await door.record()).load_s == 1.5


@pytest.mark.parametrize("path", STREAMS)
async def test_a_load_that_fails_within_a_begun_stream_is_an_error_event(
    client: aiohttp.ClientSession, door: Front, path: str
) -> None:
    await waiting(door)
    async with client.post(path, json=STREAMS[path]) as response:
        await response.content.readuntil(b"\n\n")
        door.broker.refuse(door.broker.tickets[0], BROKEN)
        got = await read_cut(response)
    assert b"CUDA error: out of memory" in got
    assert b"[DONE]" not in got
    assert (await door.record()).outcome == "error"


@pytest.mark.parametrize("path", STREAMS)
async def test_a_long_prefill_is_bridged_with_comments(
    client: aiohttp.ClientSession, door: Front, fake: Engine, path: str
) -> None:
    await door.reconfigure(keepalive_s=0.02)
    await fake.set(prompt_ms=150)
    async with client.post(path, json=STREAMS[path]) as response:
        assert await response.content.readuntil(b"\n\n") == b": waiting for m:v\n\n"
        rest = await response.read()
    assert rest.count(b": waiting for m:v\n\n") >= 1
    assert (await door.record()).outcome == "ok"


async def test_a_whole_answer_is_never_commented(client: aiohttp.ClientSession, door: Front, fake: Engine) -> None:
    await door.reconfigure(keepalive_s=0.02)
    await fake.set(prompt_ms=150)
    async with client.post("/v1/chat/completions", json=CHAT) as response:
        assert (await response.json())["object"] == "chat.completion"


async def test_an_engines_refusal_after_comments_is_its_words_as_an_event(
    client: aiohttp.ClientSession, door: Front, fake: Engine
) -> None:
    await waiting(door)
    await fake.set(answer_status=422)
    async with client.post("/v1/chat/completions", json=STREAMS["/v1/chat/completions"]) as response:
        await response.content.readuntil(b"\n\n")
        door.broker.grant(door.broker.tickets[0])
        got = await read_cut(response)
    assert b'"type":"fake_error"' in got
    assert b'"src":"engine"' in got


async def test_a_long_refusal_after_comments_is_told_in_whole(
    client: aiohttp.ClientSession, door: Front, fake: Engine
) -> None:
    await waiting(door)
    await fake.set(answer_status=422, answer_words=700_000)
    async with client.post("/v1/chat/completions", json=STREAMS["/v1/chat/completions"]) as response:
        await response.content.readuntil(b"\n\n")
        door.broker.grant(door.broker.tickets[0])
        got = await read_cut(response)
    assert b'"type":"fake_error"' in got
    assert len(got) > 700_000


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (QueueFullError("the queue of m:v is full", retry_after_s=41.2), 429, "queue_full"),
        (NotResidentError("m:v is not resident"), 503, "not_resident"),
        (DrainingError("the server is stopping"), 503, "draining"),
        (BROKEN, 503, "load_failed"),
    ],
)
@pytest.mark.parametrize("path", STREAMS)
async def test_a_refused_request_has_its_status_and_shape(
    client: aiohttp.ClientSession, door: Front, path: str, error: Exception, status: int, code: str
) -> None:
    door.broker.refusal = error
    async with client.post(path, json=STREAMS[path]) as response:
        assert response.status == status
        assert response.headers.get("retry-after") == ("42" if status == 429 else None)
        document = await response.json()
    assert document["src"] == "gearshift"
    assert document["error"]["code"] == code
    assert (document.get("type") == "error") == (path == "/v1/messages")


async def test_a_whole_answer_waits_without_a_word(client: aiohttp.ClientSession, door: Front) -> None:
    await waiting(door)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(status_of(client, CHAT))
        await until(lambda: bool(door.broker.tickets))
        door.broker.refuse(door.broker.tickets[0], BROKEN)
    assert task.result() == 503


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_the_queue_gives_up_its_place(
    client: aiohttp.ClientSession,
    door: Front,
    fake: Engine,
    stream: bool,  # noqa: FBT001 - a parameter of pytest
) -> None:
    await waiting(door)
    task = asyncio.create_task(status_of(client, {**CHAT, "stream": stream}, hold=True))
    await until(lambda: bool(door.broker.tickets))
    task.cancel()
    await until(lambda: door.broker.tickets[0].left)
    assert (await door.record()).outcome == "client_gone"
    assert await fake.seen() == []


async def test_a_client_that_leaves_mid_stream_is_noticed_by_the_engine_at_once(
    client: aiohttp.ClientSession, door: Front, fake: Engine
) -> None:
    await fake.set(tokens=100_000, token_ms=5)
    async with client.post("/v1/chat/completions", json={**CHAT, "stream": True}) as response:
        await response.content.readany()
        response.close()
    assert (await door.record()).outcome == "client_gone"
    assert door.broker.leases[0].releases >= 1
    await cancelled(fake)


async def test_a_client_that_leaves_before_the_first_byte_is_noticed_by_the_engine(
    client: aiohttp.ClientSession, door: Front, fake: Engine
) -> None:
    await fake.set(prompt_ms=60_000)
    task = asyncio.create_task(status_of(client, CHAT))
    async with asyncio.timeout(5):
        while (await fake.report())["active"] == 0:
            pass
    task.cancel()
    assert (await door.record()).outcome == "client_gone"
    await cancelled(fake)


async def test_a_slow_reader_slows_the_engine_and_costs_no_memory(door: Front, fake: Engine) -> None:
    await fake.set(tokens=2_000_000)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port, limit=4096)
    body = b'{"model":"m","stream":true,"max_tokens":2000000}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await reader.readuntil(b"\r\n\r\n")
    lease = door.broker.leases[0]
    await stands_still(fake)
    assert lease.releases == 0
    writer.close()
    await until(lambda: lease.releases > 0)
    assert (await door.record()).events * 150 < 20 * 1024**2  # of some 300 MiB that the engine had to send


async def stands_still(fake: Engine) -> None:
    """Waits until the engine's CPU time no longer grows: it is blocked in a write."""
    async with asyncio.timeout(20):
        before, now = -1, 0
        while now != before:
            await asyncio.sleep(0.3)
            before, now = now, ticks(fake.process.pid)


def ticks(pid: int) -> int:
    """CPU time of a process, in clock ticks (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def test_a_side_request_is_marked_by_header_or_alias(client: aiohttp.ClientSession, door: Front) -> None:
    await door.reconfigure(side=SideRule(headers={"x-task": "title"}))
    door.broker.side_alias = "small"
    for headers, model in (({"x-task": "title"}, "m"), ({"x-task": "chat"}, "m"), ({}, "small")):
        async with client.post("/v1/chat/completions", json={**CHAT, "model": model}, headers=headers) as response:
            assert response.status == 200
    assert door.broker.asked == [("m:v", True), ("m:v", False), ("m:v", True)]


async def status_of(client: aiohttp.ClientSession, body: object, *, hold: bool = False) -> int:
    async with client.post("/v1/chat/completions", json=body) as response:
        if hold:
            await response.read()
        return response.status


async def cancelled(fake: Engine) -> None:
    """Waits until the engine noticed that its client went away."""
    async with asyncio.timeout(5):
        while (await fake.report())["cancelled"] == 0:
            pass
