from __future__ import annotations

import aiohttp
import pytest
from yarl import URL

from fakes.front import Engine, Front

pytestmark = pytest.mark.anyio


async def test_an_engines_own_path_passes_with_method_body_and_query(
    client: aiohttp.ClientSession, door: Front, fake: Engine
) -> None:
    url = URL(f"{door.url}/upstream/m:v/v1/embeddings?a=%2F", encoded=True)
    async with client.post(url, data=b'{"input":"x","model":"served"}') as response:
        assert response.status == 200
        assert response.headers["x-gearshift-variant"] == "m:v"
    seen = (await fake.seen())[-1]
    assert (seen["method"], seen["target"]) == ("POST", "/v1/embeddings?a=%2F")
    assert seen["body"] == '{"input":"x","model":"served"}'
    assert [lease.releases for lease in door.broker.leases] == [1]


async def test_a_get_has_no_body(client: aiohttp.ClientSession, fake: Engine) -> None:
    async with client.get("/upstream/m/version") as response:
        assert await response.json() == {"version": "0.32.0"}
    assert "transfer-encoding" not in [name.lower() for name, _ in (await fake.seen())[-1]["headers"]]


@pytest.mark.parametrize("path", ["sleep?level=1", "wake_up", "%73leep", "/sleep", "v1/../sleep", "collective_rpc"])
async def test_an_engines_control_paths_are_closed_to_clients(
    client: aiohttp.ClientSession, door: Front, fake: Engine, path: str
) -> None:
    async with client.post(URL(f"{door.url}/upstream/m:v/{path}", encoded=True)) as response:
        assert response.status == 404
    assert await fake.seen() == []


async def test_an_unknown_variant_is_a_404(client: aiohttp.ClientSession) -> None:
    async with client.get("/upstream/nope/version") as response:
        assert response.status == 404
        assert (await response.json())["error"]["code"] == "model_not_found"
