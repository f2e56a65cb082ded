"""The fault matrix, clients: whoever leaves frees what it held, whoever is slow slows nobody else."""

from __future__ import annotations

import asyncio
import io
import resource
from pathlib import Path
from typing import Any

import pytest

from system.harness import StartServer, chat_body, fake

pytestmark = pytest.mark.anyio


async def test_a_client_gone_while_streaming_reaches_the_engine_at_once(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(tokens=100000, token_ms=5)})
    async with server.streaming("m:a") as stream:
        await stream.content.readuntil(b"\n\n")
    async with asyncio.timeout(5):
        while (await server.seen("m:a"))["cancelled"] != 1:
            await asyncio.sleep(0.02)
    assert (await server.row("m:a"))["in_flight"] == 0


def _pages(pid: int) -> int:
    """The size of a process's address space."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0])


async def test_a_body_beyond_the_servers_own_memory_limit_is_a_503_and_others_are_served(
    gearshift: StartServer,
) -> None:
    server = await gearshift({"a": fake()})
    await server.chat("m:a")  # the engine is up: it is not to be bound by the limit
    pages = _pages(server.pid)
    unbound = resource.prlimit(server.pid, resource.RLIMIT_AS)
    resource.prlimit(server.pid, resource.RLIMIT_AS, (pages * resource.getpagesize() + 64 * 1024**2, unbound[1]))
    answer = await server.call("POST", "/v1/chat/completions", data=io.BytesIO(b'{"x":"' + bytes(200 * 1024**2)))
    assert (answer.status, answer.json["error"]["code"]) == (503, "out_of_memory")
    assert "body_limit" in answer.json["error"]["message"]
    assert (await server.chat("m:a")).whole


async def test_a_client_gone_while_queued_leaves_the_queue(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(tokens=100000, token_ms=5, config={"max_inflight": 1})})
    async with server.streaming("m:a") as stream:
        await stream.content.readuntil(b"\n\n")
        waiting = asyncio.create_task(server.chat("m:a"))
        async with asyncio.timeout(5):
            while (await server.row("m:a"))["queued"] != 1:
                await asyncio.sleep(0.02)
        waiting.cancel()
        async with asyncio.timeout(5):
            while (await server.row("m:a"))["queued"] != 0:
                await asyncio.sleep(0.02)


async def test_a_load_whose_only_client_left_is_cancelled_when_another_variant_is_wanted(
    gearshift: StartServer,
) -> None:
    server = await gearshift({"a": fake(load_seconds=30), "b": fake()})
    waiting = asyncio.create_task(server.chat("m:a"))
    await server.until_state("m:a", "loading")
    waiting.cancel()
    async with asyncio.timeout(10):
        assert (await server.chat("m:b")).status == 200
    assert (await server.row("m:a"))["state"] == "stopped"


async def test_a_slow_reader_holds_back_its_own_engine_stream_and_nobody_elses(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(tokens=200000)})
    async with server.streaming("m:a") as slow:
        await slow.content.readuntil(b"\n\n")
        quick = await server.chat("m:a", max_tokens=50)
        assert quick.whole
        assert (await server.row("m:a"))["in_flight"] == 1
        assert (await server.seen("m:a"))["active"] == 1


async def test_while_a_stream_waits_for_its_load_comments_keep_it_alive(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(load_seconds=1.0)}, keepalive="200ms")
    answer = await server.chat("m:a")
    comments = [line for line in answer.body.splitlines() if line.startswith(":")]
    assert any("loading" in line or "queued" in line for line in comments)
    assert any("x-gearshift-variant" in line for line in comments)
    assert answer.whole
    assert answer.text


async def test_a_load_that_fails_inside_a_begun_stream_ends_it_with_an_error_event(gearshift: StartServer) -> None:
    variant = fake(load_seconds=1.0, crash_at_load="error: unknown model architecture: 'xyz'")
    server = await gearshift({"a": variant}, keepalive="100ms")
    answer = await server.chat("m:a")
    if answer.status == 200:
        assert any("error" in event for event in answer.events)
        assert not answer.whole
    assert "[DONE]" not in answer.body
    assert "unknown model architecture" in answer.body


async def test_two_models_under_overlapping_load_wait_no_longer_than_the_bound(gearshift: StartServer) -> None:
    """Sixty seconds of two loops that each always have a request in flight, the peers' starvation case."""
    load_s, stop_s, max_wait_s, busy_s = 0.3, 0.2, 2.0, 60.0
    flags: dict[str, Any] = {"load_seconds": load_s, "stop_seconds": stop_s, "tokens": 20, "token_ms": 10}
    server = await gearshift(
        {"a": fake(**flags), "b": fake(**flags)},
        defaults={"min_resident": "500ms", "max_wait": f"{max_wait_s}s"},
    )
    waits: dict[str, list[float]] = {"m:a": [], "m:b": []}
    loop = asyncio.get_running_loop()
    ends = loop.time() + busy_s

    async def keep_asking(variant: str) -> None:
        while loop.time() < ends:
            sent = loop.time()
            answer = await server.call("POST", "/v1/chat/completions", json=chat_body(variant, stream=False))
            assert answer.status == 200, answer.body
            waits[variant].append(loop.time() - sent)

    await asyncio.gather(*(keep_asking(variant) for variant in ("m:a", "m:b") for _ in range(2)))
    answer_s, slack_s = 0.2, 1.5  # our own work and a busy machine
    swap_s = answer_s + stop_s + load_s
    bound = max(max_wait_s, swap_s + 0.5) + swap_s + answer_s + slack_s
    assert max(waits["m:a"]) <= bound
    assert max(waits["m:b"]) <= bound
    assert min(len(waits["m:a"]), len(waits["m:b"])) > busy_s / (2 * bound)


test_two_models_under_overlapping_load_wait_no_longer_than_the_bound = pytest.mark.timeout(120)(
    test_two_models_under_overlapping_load_wait_no_longer_than_the_bound
)
