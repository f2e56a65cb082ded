"""Answers that stay open: events, followed logs, held leases, and waits whose client goes away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from fakes.admin import FakeAdmin
from fakes.serving import until
from gearshift.web.streams import event_stream

pytestmark = pytest.mark.anyio


async def read_until(lines: AsyncIterator[str], wanted: str) -> list[str]:
    seen: list[str] = []
    async with asyncio.timeout(5):
        async for line in lines:
            seen.append(line)
            if line == wanted:
                return seen
    raise AssertionError(seen)


async def test_events_come_with_ids_kinds_and_data(admin: FakeAdmin, live: httpx2.AsyncClient) -> None:
    async with live.stream("GET", "/api/v1/events") as response:
        lines = response.aiter_lines()
        assert await anext(lines) == ": connected"
        await until(lambda: admin.subscribers == 1)
        await admin.happen("variant.state", variant="qwen:q8", state="ready")
        seen = await read_until(lines, 'data: {"id":1,"at":1790000000.0,"kind":"variant.state",'
                                       '"data":{"variant":"qwen:q8","state":"ready"}}')  # fmt: skip
    assert seen[-3:-1] == ["id: 1", "event: variant.state"]
    assert response.headers["x-accel-buffering"] == "no"


@pytest.mark.parametrize(("query", "headers"), [("?after=2", {}), ("?after=0", {"Last-Event-ID": "2"})])
async def test_events_resume_behind_the_last_one_seen(
    admin: FakeAdmin, live: httpx2.AsyncClient, query: str, headers: dict[str, str]
) -> None:
    for number in range(4):
        await admin.happen(f"kind{number}")
    admin.events_end = True
    response = await live.get(f"/api/v1/events{query}", headers=headers)
    assert [line for line in response.text.splitlines() if line.startswith("id:")] == ["id: 3", "id: 4"]


@pytest.mark.parametrize("last", ["x1", "-1", "9" * 5000])
async def test_a_last_event_id_that_is_no_number_is_refused(live: httpx2.AsyncClient, last: str) -> None:
    response = await live.get("/api/v1/events", headers={"Last-Event-ID": last})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "Last-Event-ID")


async def test_a_quiet_event_stream_carries_comments(admin: FakeAdmin) -> None:
    stream = event_stream(admin, None, keepalive_s=0.01)
    assert [await anext(stream) for _ in range(3)] == [b": connected\n\n", b": keep-alive\n\n", b": keep-alive\n\n"]
    await admin.happen("late")
    async with asyncio.timeout(5):
        while (chunk := await anext(stream)).startswith(b":"):
            pass
    assert chunk.startswith(b"id: 1\nevent: late\n")
    await stream.aclose()


async def test_who_is_told_to_be_connected_misses_nothing(admin: FakeAdmin) -> None:
    stream = event_stream(admin, None)
    assert await anext(stream) == b": connected\n\n"
    assert admin.subscribers == 1
    await stream.aclose()


async def test_a_watcher_that_leaves_is_forgotten(admin: FakeAdmin, live: httpx2.AsyncClient) -> None:
    async with live.stream("GET", "/api/v1/events"):
        await until(lambda: admin.subscribers == 1)
    await until(lambda: admin.subscribers == 0)


async def test_a_followed_log_moves_on_to_the_next_launch(
    admin: FakeAdmin, live: httpx2.AsyncClient, tmp_path: Path
) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.write_text("old\nlast of one\n")
    admin.log_paths["qwen:q8"] = first
    async with live.stream("GET", "/api/v1/variants/qwen:q8/logs?tail=1&follow=1") as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "last of one"
        with first.open("a") as file:
            file.write("more of one\n")
        second.write_text("two\n")
        admin.log_paths["qwen:q8"] = second
        assert await read_until(lines, "two") == ["more of one", "two"]


async def test_a_followed_job_log_ends_with_the_job(admin: FakeAdmin, live: httpx2.AsyncClient, tmp_path: Path) -> None:
    job = admin.start_job(["bench"])
    admin.job_log(job.id, tmp_path / "job.log").write_text("begun\n")
    async with live.stream("GET", f"/api/v1/jobs/{job.id}/logs?follow=1") as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "begun"
        admin.cancel_job(job.id)
        async with asyncio.timeout(5):
            assert [line async for line in lines] == []


async def test_a_followed_log_of_a_cancelled_job_has_its_last_words(
    admin: FakeAdmin, live: httpx2.AsyncClient, tmp_path: Path
) -> None:
    job = admin.start_job(["bench"])
    log = admin.job_log(job.id, tmp_path / "job.log")
    log.write_text("begun\n")
    async with live.stream("GET", f"/api/v1/jobs/{job.id}/logs?follow=1") as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "begun"
        admin.cancel_job(job.id, ended=False)
        with log.open("a") as file:
            file.write("interrupted; what was whole is kept\n")
        assert await anext(lines) == "interrupted; what was whole is kept"
        admin.cancel_job(job.id)
        async with asyncio.timeout(5):
            assert [line async for line in lines] == []


async def test_a_followed_log_goes_on_where_the_file_has_started_over(
    admin: FakeAdmin, live: httpx2.AsyncClient, tmp_path: Path
) -> None:
    log = tmp_path / "1.log"
    log.write_text("a long log\n")
    admin.log_paths["qwen:q8"] = log
    async with live.stream("GET", "/api/v1/variants/qwen:q8/logs?follow=1") as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "a long log"
        log.replace(tmp_path / "1.old")
        log.write_text("new\n")
        assert await read_until(lines, "new") == ["new"]


async def test_a_followed_log_ends_with_the_server(admin: FakeAdmin, live: httpx2.AsyncClient, tmp_path: Path) -> None:
    admin.log_paths["qwen:q8"] = tmp_path / "1.log"
    admin.log_paths["qwen:q8"].write_text("serving\n")
    async with live.stream("GET", "/api/v1/variants/qwen:q8/logs?follow=1") as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "serving"
        admin.shutdown()
        with admin.log_paths["qwen:q8"].open("a") as file:
            file.write("cleaning up\n")
        assert await anext(lines) == "cleaning up"  # until the engine has ended, there is more to see
        await admin.unload("qwen:q8")
        async with asyncio.timeout(5):
            assert [line async for line in lines] == []


async def test_a_client_that_leaves_a_load_leaves_the_queue(admin: FakeAdmin, live: httpx2.AsyncClient) -> None:
    admin.hold_load = threading.Event()
    waiting = asyncio.create_task(live.post("/api/v1/variants/qwen:int4/load"))
    await until(lambda: admin.rows["qwen:int4"].state == "loading")
    waiting.cancel()
    await until(lambda: admin.cancelled_loads == ["qwen:int4"])


async def test_a_held_lease_ends_with_its_connection(admin: FakeAdmin, live: httpx2.AsyncClient) -> None:
    body = {"variant": "qwen:int4", "ttl": 300}
    async with live.stream("POST", "/api/v1/leases?hold=1", json=body) as response:
        assert '"variant":"qwen:int4"' in await anext(response.aiter_lines())
        assert len(admin.leases()) == 1
    await until(lambda: not admin.leases())


async def test_a_held_lease_is_renewed_while_the_connection_lives(live: httpx2.AsyncClient) -> None:
    async with live.stream("POST", "/api/v1/leases?hold=1", json={"variant": "qwen:int4", "ttl": 1}) as response:
        lines = response.aiter_lines()
        assert await anext(lines) != await anext(lines)


async def test_a_held_lease_that_ended_otherwise_closes_the_connection(
    admin: FakeAdmin, live: httpx2.AsyncClient
) -> None:
    async with live.stream("POST", "/api/v1/leases?hold=1", json={"variant": "qwen:int4", "ttl": 3600}) as response:
        lines = response.aiter_lines()
        await anext(lines)
        admin.end_lease(admin.leases()[0].id)
        async with asyncio.timeout(5):
            assert [line async for line in lines] == []
