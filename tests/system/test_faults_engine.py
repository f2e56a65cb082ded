"""The fault matrix, engines: whatever an engine does, its clients are told and nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from system.harness import StartServer, alive, fake, marked, read, until

pytestmark = pytest.mark.anyio


async def test_an_engine_killed_mid_stream_ends_the_stream_with_an_error_and_is_restarted(
    gearshift: StartServer,
) -> None:
    server = await gearshift({"a": fake(tokens=1000, token_ms=10)})
    async with server.streaming("m:a") as stream:
        await stream.content.readuntil(b"\n\n")
        row = await server.row("m:a")
        os.kill(row["pids"][0], signal.SIGKILL)
        rest = await read(stream)
    assert not rest.whole
    assert "error" in rest.events[-1]
    assert "[DONE]" not in rest.body
    again = await server.until_state("m:a", "ready")
    assert again["pids"] != row["pids"]
    assert (await server.chat("m:a", max_tokens=2)).whole


async def test_when_only_the_parent_of_a_tree_is_killed_the_rest_is_ended_too(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(fork_grandchild=True, grandchild_ignores_sigterm=True)})
    await server.chat("m:a")
    parent, *children = (await server.row("m:a"))["pids"]
    assert children
    os.kill(parent, signal.SIGKILL)
    await until(lambda: not any(alive(pid) for pid in children), what="the end of the orphans")
    await server.until_state("m:a", "ready")


@pytest.mark.parametrize(
    "flags",
    [
        {"grandchild_ignores_sigterm": True},
        {"grandchild_setsid": True, "grandchild_ignores_sigterm": True},
        {"grandchild_rename": "VLLM::Worker_TP0", "grandchild_setsid": True, "grandchild_ignores_sigterm": True},
        {"grandchild_double_fork": True, "grandchild_setsid": True, "grandchild_ignores_sigterm": True},
    ],
    ids=["ignores SIGTERM", "own session", "renamed", "double fork"],
)
async def test_a_swap_ends_grandchildren_that_will_not_go(gearshift: StartServer, flags: dict[str, Any]) -> None:
    stubborn = fake(fork_grandchild=True, config={"stop_grace": "300ms"}, **flags)
    server = await gearshift({"a": stubborn, "b": fake()})
    await server.chat("m:a")
    pids = (await server.row("m:a"))["pids"]
    assert len(pids) > 1
    assert (await server.chat("m:b")).status == 200
    assert not [pid for pid in pids if alive(pid)]


async def test_an_engine_that_hangs_after_ready_is_found_and_restarted(gearshift: StartServer) -> None:
    # The probe at load is generation 1; everything after it hangs, health included.
    server = await gearshift({"a": fake(hang_after=1, config={"probe_every": "200ms", "probe_timeout": "300ms"})})
    await server.admin("POST", "/variants/m:a/load")
    first = (await server.row("m:a"))["pids"]
    await until_restarted(server, "m:a", first)


async def test_an_engine_that_is_dead_while_health_says_200_is_found_and_restarted(gearshift: StartServer) -> None:
    config = {"probe_every": "200ms", "probe_timeout": "300ms"}
    server = await gearshift({"a": fake(dead_health="hang", hang_after=1, config=config)})
    await server.admin("POST", "/variants/m:a/load")
    first = (await server.row("m:a"))["pids"]
    await until_restarted(server, "m:a", first)


async def until_restarted(server: Any, variant: str, pids: list[int]) -> None:
    async with asyncio.timeout(20):
        while (row := await server.row(variant))["state"] != "ready" or row["pids"] == pids:
            await asyncio.sleep(0.02)
    assert not [pid for pid in pids if alive(pid)]


async def test_an_engine_that_keeps_dying_ends_as_failed_with_its_root_cause(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(crash_at_load="error: invalid argument: --no-mmap")})
    answer = await server.chat("m:a")
    assert answer.status == 503
    assert "invalid argument: --no-mmap" in answer.json["error"]["message"]
    row = await server.until_state("m:a", "failed")
    assert "--no-mmap" in row["failure"]["cause"]


async def test_a_load_that_stalls_fails_with_a_cause_that_says_so(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(stall_at_load=True, config={"stall_timeout": "500ms"})})
    answer = await server.chat("m:a", stream=False)
    assert answer.status == 503
    assert "stall" in answer.json["error"]["message"].lower() or "no progress" in answer.json["error"]["message"]
    await server.until_state("m:a", "failed")
    assert (await server.row("m:a"))["pids"] == []


async def test_a_load_that_never_listens_fails_at_its_deadline(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(refuse_port=True, config={"load_timeout": "700ms"})})
    answer = await server.chat("m:a", stream=False)
    assert answer.status == 503
    assert "load_timeout (0.7 s)" in answer.json["error"]["message"]


async def test_memory_that_does_not_come_back_is_named_and_keeps_others_out(
    gearshift: StartServer, tmp_path: Path
) -> None:
    gpu = tmp_path / "gpu.json"
    variants = {"a": fake(memory="20GiB"), "b": fake(memory="20GiB")}
    env = {"GEARSHIFT_FAKE_GPUS": f"1x24GiB@{gpu}"}
    server = await gearshift(variants, env=env, defaults={"memory_timeout": "500ms", "min_resident": "0s"})
    assert (await server.chat("m:a")).status == 200
    gpu.write_text(json.dumps({"residue": {"GPU-fake-0": 9 * 1024**3}}))
    answer = await server.chat("m:b", stream=False)
    assert answer.status == 503
    assert "9 GiB of GPU-fake-0 did not come back" in answer.json["error"]["message"]
    gpu.write_text(json.dumps({"residue": {}}))  # it comes back after all, and the stop is tried again
    await server.until_state("m:a", "stopped")
    assert (await server.chat("m:b")).status == 200


async def test_nothing_of_any_engine_is_left_once_the_server_has_ended(gearshift: StartServer) -> None:
    stubborn = fake(fork_grandchild=True, grandchild_setsid=True, ignore_sigterm=True, config={"stop_grace": "1s"})
    server = await gearshift({"a": stubborn})
    await server.chat("m:a")
    assert await server.stop() == 0
    assert marked(server.home) == []
