"""Over TCP: an operator's key, a host name of ours, a page of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from fakes.admin import FakeAdmin
from gearshift.domain.settings import ApiKey, Settings
from gearshift.web import create_admin

pytestmark = pytest.mark.anyio

SETTINGS = Settings(
    host="0.0.0.0",
    api_keys=(ApiKey("laptop", "client-key"), ApiKey("me", "operator-key", role="operator")),
    allowed_hosts=("gpu.lan",),
    cors_origins=("https://dash.example",),
)
OPERATOR = {"Authorization": "Bearer operator-key", "Host": "gpu.lan:8888"}


@pytest.fixture
async def remote(admin: FakeAdmin) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=create_admin(admin, lambda: SETTINGS, remote=True))
    async with httpx2.AsyncClient(transport=transport, base_url="http://gpu.lan:8888") as client:
        yield client


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ({}, 200, None),
        ({"Authorization": "bearer operator-key"}, 200, None),
        ({"Host": "127.0.0.1:8888"}, 200, None),
        ({"Host": "[::1]:8888"}, 200, None),
        ({"Origin": "http://gpu.lan:8888"}, 200, None),
        ({"Origin": "https://dash.example"}, 200, None),
        ({"Authorization": "Bearer client-key"}, 403, "not_an_operator"),
        ({"Authorization": "Bearer "}, 401, "invalid_api_key"),
        ({"Authorization": "Basic operator-key"}, 401, "invalid_api_key"),
        ({"Host": "evil.example"}, 403, "host_refused"),
        ({"Host": ""}, 403, "host_refused"),
        ({"Origin": "https://evil.example"}, 403, "origin_refused"),
        ({"Origin": "null"}, 403, "origin_refused"),
        ({"Origin": "http://gpu.lan:9999"}, 403, "origin_refused"),
    ],
)
async def test_a_side_effect_is_for_operators_from_our_own_pages(
    remote: httpx2.AsyncClient, changed: dict[str, str], status: int, code: str | None
) -> None:
    response = await remote.post("/api/v1/variants/qwen:int4/load", headers=OPERATOR | changed)
    assert response.status_code == status
    if code:
        assert response.json()["error"]["code"] == code


async def test_a_foreign_page_that_is_refused_changes_nothing(admin: FakeAdmin, remote: httpx2.AsyncClient) -> None:
    await remote.post("/api/v1/shutdown", headers=OPERATOR | {"Origin": "https://evil.example"})
    assert not admin.stopped


async def test_reading_needs_the_key_as_well(remote: httpx2.AsyncClient) -> None:
    response = await remote.get("/api/v1/status", headers={"Host": "gpu.lan:8888"})
    assert response.status_code == 401
    assert "operator-key" not in response.text


async def test_without_operator_keys_nobody_gets_in(admin: FakeAdmin) -> None:
    transport = httpx2.ASGITransport(app=create_admin(admin, Settings, remote=True))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        response = await client.get("/api/v1/status", headers={"Authorization": "Bearer "})
    assert response.status_code == 401


async def test_a_named_page_may_ask_first_and_read_the_answer(remote: httpx2.AsyncClient) -> None:
    page = {"Origin": "https://dash.example"}
    asking = page | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    asked = await remote.options("/api/v1/reload", headers=asking)
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "https://dash.example")
    answer = await remote.get("/api/v1/status", headers=OPERATOR | page)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://dash.example")


async def test_a_foreign_page_is_not_even_answered_its_question(remote: httpx2.AsyncClient) -> None:
    asking = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    response = await remote.options("/api/v1/reload", headers=asking)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "origin_refused")


async def test_a_stranger_does_not_learn_which_paths_exist(remote: httpx2.AsyncClient) -> None:
    assert (await remote.get("/api/v1/nothing")).status_code == 401
