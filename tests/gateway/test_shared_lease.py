"""Requests that name an operator's lease: served under it at once, and never told to the engine."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from fakes.front import Engine, Front, read_cut
from fakes.serving import until

pytestmark = pytest.mark.anyio

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
UNDER = {"X-Gearshift-Lease": "1ea5e"}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/upstream/m:v/v1/chat/completions"])
async def test_a_request_under_a_lease_is_served_while_others_wait(
    client: aiohttp.ClientSession, door: Front, fake: Engine, path: str
) -> None:
    door.broker.open, door.broker.shared = False, "1ea5e"
    body = CHAT if path.startswith("/v1") else {**CHAT, "model": "served"}
    waiting = asyncio.create_task(client.post("/v1/chat/completions", json=CHAT))
    await until(lambda: bool(door.broker.tickets))
    async with client.post(path, json=body, headers=UNDER) as response:
        assert response.status == 200
        assert response.headers["x-gearshift-queue-ms"] == "0"
    assert not waiting.done()
    assert [lease.releases for lease in door.broker.leases] == [1]
    assert "x-gearshift-lease" not in {name.lower() for name, _ in (await fake.seen())[-1]["headers"]}
    door.broker.grant(door.broker.tickets[0])
    (await waiting).release()


async def test_a_lease_that_is_not_there_is_a_404_and_no_place_in_the_queue(
    client: aiohttp.ClientSession, door: Front
) -> None:
    async with client.post("/v1/chat/completions", json=CHAT, headers=UNDER) as response:
        assert response.status == 404
        error = (await response.json())["error"]
    assert (error["code"], error["message"]) == ("not_found", "there is no lease '1ea5e'")
    assert door.broker.asked == []


async def test_the_end_of_the_lease_ends_what_is_served_under_it(
    client: aiohttp.ClientSession, door: Front, fake: Engine
) -> None:
    door.broker.shared = "1ea5e"
    await fake.set(token_ms=50, tokens=400)
    async with client.post("/v1/chat/completions", json={**CHAT, "stream": True}, headers=UNDER) as response:
        await response.content.readuntil(b"\n\n")
        door.broker.leases[0].taken_back.set_result("the operator's lease it was under has ended: released")
        got = await read_cut(response)
    assert b"has ended: released" in got
