"""What a stranger, a web page or a mistaken client gets, in the dialect of the route."""

from __future__ import annotations

import base64
import json
from typing import Any

import aiohttp
import pytest

from fakes.front import Engine, Front, front
from gearshift.domain.errors import QueueFullError
from gearshift.domain.settings import ApiKey

pytestmark = pytest.mark.anyio

PATHS = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/audio/speech"]
KEYS = (ApiKey("laptop", "s3cret"), ApiKey("phone", "other"))


async def refused(client: aiohttp.ClientSession, path: str, data: Any = b"{}", **headers: str) -> tuple[int, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.post(path, data=data, headers=named) as response:
        document = await response.json()
        if response.status >= 400:
            assert document["src"] == "gearshift"
            assert (document.get("type") == "error") == path.startswith("/v1/messages")
        return response.status, document["error"] if response.status >= 400 else document


@pytest.mark.parametrize("path", PATHS)
async def test_bad_input_is_refused_in_the_dialect_of_the_route(
    client: aiohttp.ClientSession, door: Front, fake: Engine, path: str
) -> None:
    await door.reconfigure(body_limit_bytes=500)
    assert (await refused(client, path, b"{" + b" " * 600))[0] == 413
    assert (await refused(client, path, b"\x1f\x8b", Content_Encoding="gzip"))[0] == 415
    status, error = await refused(client, path, b'{"model": "m",}')
    assert status == 400
    assert "byte 14" in error["message"]
    status, error = await refused(client, path, b'{"model": "nope"}')
    assert (status, error["code"]) == (404, "model_not_found")
    assert "nope" in error["message"]
    assert (await refused(client, path, b'{"model": 7}'))[0] == 400
    assert await fake.seen() == []


async def test_an_oversized_body_of_unknown_length_is_refused(client: aiohttp.ClientSession, door: Front) -> None:
    await door.reconfigure(body_limit_bytes=500)

    async def pieces() -> Any:
        for _ in range(10):
            yield b" " * 100

    assert (await refused(client, "/v1/chat/completions", pieces()))[0] == 413


@pytest.mark.parametrize("path", PATHS)
async def test_without_the_right_key_nothing_is_served(
    client: aiohttp.ClientSession, door: Front, fake: Engine, path: str
) -> None:
    await door.reconfigure(api_keys=KEYS)
    for headers in ({}, {"Authorization": "Bearer s3cre"}, {"x_api_key": ""}, {"Authorization": "Basic !"}):
        status, error = await refused(client, path, **headers)
        assert (status, error["type"]) == (401, "authentication_error")
    assert await fake.seen() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer s3cret"},
        {"Authorization": "bearer  s3cret"},
        {"x-api-key": "s3cret"},
        {"Authorization": "Basic " + base64.b64encode(b"anyone:s3cret").decode()},
    ],
)
async def test_a_key_opens_in_each_of_its_forms_and_its_name_is_recorded(
    client: aiohttp.ClientSession, door: Front, headers: dict[str, str]
) -> None:
    await door.reconfigure(api_keys=KEYS)
    async with client.post("/v1/chat/completions", json={"model": "m", "messages": []}, headers=headers) as response:
        assert response.status == 200
    assert (await door.record()).client == "laptop"


async def test_health_needs_no_key(client: aiohttp.ClientSession, door: Front) -> None:
    await door.reconfigure(api_keys=KEYS)
    async with client.get("/health") as response:
        assert response.status == 200


async def test_a_foreign_host_is_refused_before_anything_else(client: aiohttp.ClientSession, door: Front) -> None:
    for host in ("evil.example", "evil.example:8888", "localhost.evil.example"):
        async with client.get("/health", headers={"Host": host}) as response:
            assert response.status == 403
    await door.reconfigure(allowed_hosts=("box.tail.example",))
    for host in ("localhost:1", "127.0.0.1", "[::1]:9", "192.168.0.7:8888", "box.tail.example"):
        async with client.get("/health", headers={"Host": host}) as response:
            assert response.status == 200


async def test_a_foreign_page_may_not_start_work(client: aiohttp.ClientSession, door: Front, fake: Engine) -> None:
    body = json.dumps({"model": "m", "messages": []}).encode()
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{door.port}.evil.example"):
        assert (await refused(client, "/v1/chat/completions", body, Origin=origin))[0] == 403
    async with client.get("/upstream/m:v/version", headers={"Sec-Fetch-Site": "cross-site"}) as response:
        assert response.status == 403
    assert await fake.seen() == []
    assert (await refused(client, "/v1/chat/completions", body, Origin=door.url))[0] == 200


async def test_a_named_page_may_call_and_read_the_answer(client: aiohttp.ClientSession, door: Front) -> None:
    await door.reconfigure(cors_origins=("https://ui.example",))
    asked = {"Origin": "https://ui.example", "Access-Control-Request-Method": "POST"}
    async with client.options("/v1/chat/completions", headers=asked) as response:
        assert response.status == 204
        assert response.headers.getall("access-control-allow-origin") == ["https://ui.example"]
    body = {"model": "m", "messages": []}
    async with client.post("/v1/chat/completions", json=body, headers={"Origin": "https://ui.example"}) as response:
        assert response.status == 200
        assert response.headers.getall("access-control-allow-origin") == ["https://ui.example"]
    async with client.options("/v1/models", headers={**asked, "Origin": "https://other.example"}) as response:
        assert response.status == 403


async def test_what_is_not_served_is_a_404_and_a_wrong_method_a_405(client: aiohttp.ClientSession) -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("POST", "/chat/completion", 404),  # a slip: saying that it takes GET would mislead
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
    ):
        async with client.request(method, path) as response:
            assert response.status == status
            assert "error" in await response.json()


async def test_models_are_listed_with_their_state_and_never_wait(client: aiohttp.ClientSession, door: Front) -> None:
    door.broker.open, door.broker.state = False, "stopped"
    async with client.get("/v1/models") as response:
        cards = {card["id"]: card["gearshift"] for card in (await response.json())["data"]}
    assert list(cards) == ["m", "m:v"]
    assert cards["m"]["aliases"] == ["nick"]
    assert cards["m:v"]["state"] == "stopped"
    async with client.get("/v1/models/m:v") as response:
        assert (await response.json())["id"] == "m:v"
    async with client.get("/v1/models/nope") as response:
        assert response.status == 404
    assert door.broker.asked == []


@pytest.mark.parametrize("path", ["/tokenize", "/props?model=m", "/slots"])
async def test_a_peek_is_answered_by_a_resident_engine_and_never_loads_one(
    client: aiohttp.ClientSession, door: Front, path: str
) -> None:
    method, body = ("POST", {"model": "m", "content": "x"}) if path == "/tokenize" else ("GET", None)
    async with client.request(method, path, json=body) as response:
        assert response.status == (404 if path == "/slots" else 200)
    door.broker.state = "stopped"
    async with client.request(method, path, json=body) as response:
        assert response.status == 503
        assert (await response.json())["error"]["code"] == "not_resident"
    assert door.broker.asked == []


async def test_metrics_speak_of_requests_states_and_the_engine(client: aiohttp.ClientSession, door: Front) -> None:
    async with client.post("/v1/chat/completions", json={"model": "m", "messages": [], "stream": True}) as response:
        await response.read()
    await door.record()
    async with client.get("/metrics") as response:
        assert response.content_type == "text/plain"
        lines = (await response.text()).splitlines()
    for line in (
        'gearshift_requests_total{outcome="ok",variant="m:v"} 1.0',
        'gearshift_time_to_first_token_seconds_count{variant="m:v"} 1.0',
        'gearshift_output_tokens_sum{variant="m:v"} 4.0',
        'gearshift_in_flight{variant="m:v"} 0.0',
        'gearshift_state{state="ready",variant="m:v"} 1.0',
        'gearshift_state{state="sleeping",variant="m:v"} 0.0',
        'gearshift_engine_drafts_total{variant="m:v"} 3.0',
        'gearshift_engine_accepted_per_position_total{position="0",variant="m:v"} 2.0',
        'gearshift_engine_generation_tokens_total{variant="m:v"} 4.0',
    ):
        assert line in lines


async def test_metrics_never_touch_an_engine_that_is_not_awake(
    client: aiohttp.ClientSession, door: Front, fake: Engine
) -> None:
    door.broker.state = "sleeping"
    async with client.get("/metrics") as response:
        assert 'gearshift_state{state="sleeping",variant="m:v"} 1.0' in await response.text()
    assert await fake.seen() == []


async def test_metrics_do_without_an_engine_that_does_not_answer() -> None:
    async with front(1) as door, aiohttp.ClientSession() as client, client.get(f"{door.url}/metrics") as response:
        assert response.status == 200
        assert "gearshift_engine_running{" not in await response.text()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", b'{"model":"nope"}', 404),
        ("/v1/chat/completions", b"{", 400),
        ("/v1/messages", b"x" * 2000, 413),
        ("/upstream/nope/version", b"", 404),
        ("/upstream/m:v/sleep", b"", 404),
    ],
)
async def test_what_is_refused_before_its_variant_is_known_leaves_a_record(
    client: aiohttp.ClientSession, door: Front, path: str, body: bytes, status: int
) -> None:
    await door.reconfigure(body_limit_bytes=1000)
    async with client.post(path, data=body) as response:
        assert response.status == status
    record = await door.record()
    assert (record.variant, record.path, record.status, record.outcome) == ("", path, status, "refused")
    assert record.dispatched_s is None


async def test_a_full_queue_is_recorded_with_the_status_of_its_answer(
    client: aiohttp.ClientSession, door: Front
) -> None:
    door.broker.refusal = QueueFullError("the queue is full", retry_after_s=3)
    async with client.post("/v1/chat/completions", json={"model": "m"}) as response:
        assert response.status == 429
    record = await door.record()
    assert (record.variant, record.status, record.outcome) == ("m:v", 429, "refused")


async def test_who_is_turned_away_at_the_gate_fills_no_store(client: aiohttp.ClientSession, door: Front) -> None:
    await door.reconfigure(api_keys=(ApiKey("laptop", "secret"),))
    async with client.post("/v1/chat/completions", json={"model": "m"}) as response:
        assert response.status == 401
    async with client.get("/nowhere", headers={"Authorization": "Bearer secret"}) as response:
        assert response.status == 404
    assert door.sink.requests == []
