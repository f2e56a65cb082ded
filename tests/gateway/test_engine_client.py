"""The connection to an engine: reused while it is good, replaced when the engine closed it, never leaked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakes.front import Engine, Front, front
from fakes.serving import until

pytestmark = pytest.mark.anyio

CHAT: dict[str, Any] = {"model": "m", "messages": []}
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Fickle:
    """An engine that answers one request a connection and closes or resets it when the next one comes."""

    def __init__(self, *, resets: bool) -> None:
        self.resets = resets
        self.connections = 0
        self.requests = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._read(reader)
            writer.write(ANSWER)
            await self._read(reader)
        except asyncio.IncompleteReadError:
            pass
        (writer.transport.abort if self.resets else writer.close)()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length or 0))


@asynccontextmanager
async def fickle(*, resets: bool = False) -> AsyncIterator[tuple[Fickle, int]]:
    engine = Fickle(resets=resets)
    server = await asyncio.start_server(engine.serve, "127.0.0.1", 0)
    async with server:
        yield engine, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("resets", [False, True])
async def test_a_request_that_met_a_closing_connection_goes_out_once_more(resets: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    async with fickle(resets=resets) as (engine, port), front(port) as door, aiohttp.ClientSession(door.url) as client:
        for _ in range(3):
            async with client.post("/v1/chat/completions", json=CHAT) as response:
                assert response.status == 200
    assert engine.connections == 3
    assert engine.requests == 4  # the second met a closing connection first, and its new one was not kept


async def test_a_request_that_met_a_closing_connection_does_not_meet_another() -> None:
    async with fickle() as (engine, port), front(port) as door, aiohttp.ClientSession(door.url) as client:
        two = [asyncio.create_task(client.post("/v1/chat/completions", json=CHAT)) for _ in range(2)]
        for waiting in two:
            (await waiting).close()
        assert engine.connections == 2
        async with client.post("/v1/chat/completions", json=CHAT) as response:
            assert response.status == 200


async def test_an_upload_that_cannot_be_sent_twice_meets_no_closing_connection() -> None:
    async with fickle() as (engine, port), front(port) as door, aiohttp.ClientSession(door.url) as client:
        for _ in range(3):
            async with client.post("/upstream/m:v/x", data=b"x") as response:
                assert response.status == 200
            async with client.post("/v1/chat/completions", json=CHAT) as response:
                assert response.status == 200
    assert engine.connections == 6
    assert engine.requests == 7  # the second chat met a closing connection first


async def test_connections_are_reused(client: aiohttp.ClientSession, fake: Engine) -> None:
    async with client.post("/v1/chat/completions", json=CHAT) as response:
        await response.read()
    before = sockets(fake.process.pid)
    for _ in range(5):
        async with client.post("/v1/chat/completions", json={**CHAT, "stream": True}) as response:
            await response.read()
    assert sockets(fake.process.pid) == before


async def test_clients_that_leave_at_random_moments_leave_nothing_behind(door: Front, fake: Engine) -> None:
    tasks, descriptors = len(asyncio.all_tasks()), sockets(os.getpid())
    await fake.set(tokens=100_000, token_ms=1)  # nobody stays to the end, so no connection goes back to the pool
    chance = random.Random(7)  # noqa: S311 - a spread of moments, not a secret
    async with aiohttp.ClientSession(door.url, connector=aiohttp.TCPConnector(limit=0)) as client:
        await asyncio.gather(*(leave_after(client, chance.uniform(0, 0.3)) for _ in range(150)))
    await until(lambda: all(lease.releases for lease in door.broker.leases))
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    await until(lambda: sockets(os.getpid()) <= descriptors)
    async with asyncio.timeout(5):
        while (await fake.report())["active"]:
            pass


async def leave_after(client: aiohttp.ClientSession, moment: float) -> None:
    body = {**CHAT, "stream": True}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(moment), client.post("/v1/chat/completions", json=body) as response:
            await response.read()


def sockets(pid: int) -> int:
    """Open sockets of a process."""
    count = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            count += str(link.readlink()).startswith("socket:")
    return count
