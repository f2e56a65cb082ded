from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from fakes.front import Engine, Front
from fakes.serving import until
from gearshift.domain.settings import ApiKey
from gearshift.gateway import create_gateway

pytestmark = pytest.mark.anyio


async def test_a_websocket_is_bridged_both_ways_and_releases_its_lease(
    client: aiohttp.ClientSession, door: Front
) -> None:
    async with client.ws_connect("/upstream/m:v/ws") as socket:
        await socket.send_str("hello")
        assert (await socket.receive_str()) == "hello"
        await socket.send_bytes(b"\x00\xff")
        assert (await socket.receive_bytes()) == b"\x00\xff"
        assert door.broker.leases[0].releases == 0
    await until(lambda: door.broker.leases[0].releases == 1)


async def test_a_websocket_is_closed_when_its_lease_is_revoked(client: aiohttp.ClientSession, door: Front) -> None:
    async with client.ws_connect("/upstream/m:v/ws") as socket:
        door.broker.leases[0].taken_back.set_result("the engine died")
        message = await socket.receive(timeout=5)
        assert message.type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1011


async def test_a_websocket_without_a_key_is_a_401(client: aiohttp.ClientSession, door: Front) -> None:
    await door.reconfigure(api_keys=(ApiKey("laptop", "secret"),))
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await client.ws_connect("/upstream/m:v/ws")
    assert caught.value.status == 401


async def test_a_websocket_leaves_a_record(client: aiohttp.ClientSession, door: Front) -> None:
    async with client.ws_connect("/upstream/m:v/ws") as socket:
        await socket.send_str("hello")
        await socket.receive_str()
    record = await door.record()
    assert (record.variant, record.path, record.status, record.outcome) == ("m:v", "/upstream/m:v/ws", 101, "ok")
    assert record.events == 1
    assert record.dispatched_s is not None


async def test_a_refused_websocket_leaves_a_record(client: aiohttp.ClientSession, door: Front) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await client.ws_connect("/upstream/nope/ws")
    record = await door.record()
    assert (record.variant, record.status, record.outcome) == ("", 404, "refused")


async def test_a_path_without_a_websocket_is_refused_with_the_engines_status(
    client: aiohttp.ClientSession, door: Front
) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await client.ws_connect("/upstream/m:v/none")
    assert caught.value.status == 404
    record = await door.record()
    assert (record.variant, record.status, record.outcome) == ("m:v", 404, "refused")
    assert [lease.releases for lease in door.broker.leases] == [1]


@pytest.mark.parametrize(("said", "heard"), [(4001, 4001), (1000, 1000), (1003, 1003)])
async def test_the_clients_close_code_reaches_the_engine(
    client: aiohttp.ClientSession, door: Front, fake: Engine, said: int, heard: int
) -> None:
    async with client.ws_connect("/upstream/m:v/ws") as socket:
        await socket.close(code=said)
    await door.record()
    assert await closed_with(fake) == heard


async def test_the_engines_close_code_reaches_the_client(client: aiohttp.ClientSession, door: Front) -> None:
    async with client.ws_connect("/upstream/m:v/ws") as socket:
        await socket.send_str("close 4002")
        await socket.receive(timeout=5)
        assert socket.close_code == 4002
    assert (await door.record()).outcome == "ok"


async def test_an_engine_that_hangs_up_without_a_close_is_an_error_to_both_sides(
    client: aiohttp.ClientSession, door: Front
) -> None:
    async with client.ws_connect("/upstream/m:v/ws") as socket:
        await socket.send_str("cut")
        await socket.receive(timeout=5)
        assert socket.close_code == 1011
    record = await door.record()
    assert (record.status, record.outcome) == (101, "engine_died")
    assert [lease.releases for lease in door.broker.leases] == [1]


async def closed_with(fake: Engine) -> int:
    """The code that the engine's end was closed with, once the engine has seen it."""
    async with asyncio.timeout(5):
        while (code := (await fake.report())["closed_with"]) is None:
            await asyncio.sleep(0.01)
    return int(code)


class Bare:
    """A server below the gateway: what it says is scripted, what it is told is kept."""

    def __init__(self, *, then: dict[str, Any] | None) -> None:
        self.sent: list[Any] = []
        self._said = [{"type": "websocket.connect"}]
        self._then = then  # once the websocket is accepted; None: a defect

    async def receive(self) -> dict[str, Any]:
        if self._said:
            return self._said.pop(0)
        await until(lambda: bool(self.sent))
        if self._then is None:
            msg = "a defect"
            raise KeyError(msg)
        return self._then

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def serve(self, door: Front) -> None:
        target = "/upstream/m:v/ws"
        scope = {"type": "websocket", "path": target, "raw_path": target.encode(), "query_string": b""}
        gateway = create_gateway(door.broker, lambda: door.settings, door.sink)
        try:
            await gateway({**scope, "headers": [(b"host", b"localhost")]}, self.receive, self.send)
        finally:
            await gateway.close()


async def test_a_client_that_hangs_up_without_a_close_is_recorded_as_gone(door: Front, fake: Engine) -> None:
    server = Bare(then={"type": "websocket.disconnect", "code": 1006})
    await server.serve(door)
    assert [message["type"] for message in server.sent] == ["websocket.accept"]
    assert (await door.record()).outcome == "client_gone"
    assert await closed_with(fake) == 1001


async def test_a_close_without_a_code_is_a_normal_one_to_the_engine(door: Front, fake: Engine) -> None:
    await Bare(then={"type": "websocket.disconnect", "code": 1005}).serve(door)
    assert (await door.record()).outcome == "ok"
    assert await closed_with(fake) == 1000


async def test_a_defect_on_one_side_closes_both_and_is_raised_for_the_log(door: Front, fake: Engine) -> None:
    server = Bare(then=None)
    with pytest.raises(KeyError, match="a defect"):
        await server.serve(door)
    assert [message["type"] for message in server.sent] == ["websocket.accept", "websocket.close"]
    assert server.sent[-1]["code"] == 1011
    assert [lease.releases for lease in door.broker.leases] == [1]
    assert (await door.record()).outcome == "error"
    assert await closed_with(fake) == 1001
