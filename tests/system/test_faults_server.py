"""The fault matrix, the server itself: killed, doubled, reloaded, out of disk, swapped five hundred times."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gearshift.app.limits import raised
from system.harness import StartServer, alive, fake, marked, run_serve, until

pytestmark = pytest.mark.anyio


async def test_after_a_sigkill_mid_stream_nothing_is_left_and_a_restart_serves(gearshift: StartServer) -> None:
    grandchild: dict[str, Any] = {
        "fork_grandchild": True,
        "grandchild_setsid": True,
        "grandchild_ignores_sigterm": True,
    }
    server = await gearshift({"a": fake(tokens=1000, token_ms=10, **grandchild)})
    async with server.streaming("m:a") as stream:
        await stream.content.readuntil(b"\n\n")
        pids = (await server.row("m:a"))["pids"]
        server.kill()
    await until(lambda: not any(alive(pid) for pid in pids), what="the end of the engine")
    await server.start()
    assert (await server.chat("m:a", max_tokens=2)).whole


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
async def test_a_job_does_not_outlive_its_server(gearshift: StartServer, *, killed: bool) -> None:
    server = await gearshift()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it never answers, so the job waits
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        job = await server.admin("POST", "/jobs", json={"argv": ["bench", "ladder", "--url", url, "--model", "m"]})
        assert job.status == 201, job.body
        silent.settimeout(15)
        running, _ = await asyncio.to_thread(silent.accept)
        with running:
            if killed:
                server.kill()
            else:
                await server.stop()
            await until(lambda: not marked(server.home), what="the end of the job")


async def test_a_restart_ends_what_survived_a_sigkill_of_everything_that_guards_it(gearshift: StartServer) -> None:
    """Gearshift and every process between it and the engine are killed at once: the state file is what is left."""
    server = await gearshift({"a": fake(ignore_sigterm=True, environment_wipe=True, config={"stop_grace": "1s"})})
    await server.chat("m:a")
    pids = (await server.row("m:a"))["pids"]
    guards = [pid for pid in marked(server.home) if pid not in (*pids, server.pid)]
    for pid in (server.pid, *guards):
        os.kill(pid, signal.SIGSTOP)  # so that none sees another die
    for pid in (*guards, server.pid):
        os.kill(pid, signal.SIGKILL)
    await server.ended()
    await server.start()
    assert not [pid for pid in pids if alive(pid)]
    assert (await server.chat("m:a", max_tokens=2)).whole


async def test_a_second_serve_on_the_same_state_folder_is_refused_and_harms_nothing(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake()})
    await server.chat("m:a")
    code, said = run_serve(server)
    assert code == 1
    assert str(server.pid) in said
    assert (await server.chat("m:a")).whole


async def test_a_server_whose_state_folder_was_removed_says_so_and_keeps_a_second_one_out(
    gearshift: StartServer,
) -> None:
    server = await gearshift({"a": fake()})
    await server.chat("m:a")
    for name in ("lock", "admin.sock", "children.json"):  # the log stays, to be read
        (server.home / name).unlink()
    code, said = run_serve(server)
    assert code == 1
    assert str(server.pid) in said
    assert "removed under it" in said
    await until(lambda: "the state folder was removed or replaced while serving" in server.log, what="its word")
    assert (await server.chat("m:a")).whole


async def test_a_taken_port_is_a_clear_error(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake()}, run=False)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", server.port))
        holder.listen()
        code, said = run_serve(server)
    assert code == 1
    assert f"127.0.0.1:{server.port}" in said


async def test_a_reload_leaves_untouched_variants_and_their_streams_alone(gearshift: StartServer) -> None:
    a, b = fake(tokens=60, token_ms=20), fake(memory="1GiB")
    server = await gearshift({"a": a, "b": b})
    async with server.streaming("m:a", max_tokens=60) as stream:
        await stream.content.readuntil(b"\n\n")
        pids = (await server.row("m:a"))["pids"]
        server.write({"memory": "16GiB", "models": {"m": {"variants": {"a": a, "c": b}}}})
        report = (await server.admin("POST", "/reload")).json
        rest = (await stream.content.read()).decode()
    assert report["applied"]
    assert (report["added"], report["removed"], report["untouched"]) == (["m:c"], ["m:b"], ["m:a"])
    assert "[DONE]" in rest
    assert (await server.row("m:a"))["pids"] == pids


async def test_a_reload_of_a_broken_file_changes_nothing_and_says_why(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake()})
    await server.chat("m:a")
    server.config.write_text("models: {m: {variants: {a: {engin: vllm}}}}")
    answer = await server.admin("POST", "/reload")
    assert answer.status == 400
    assert "engin" in answer.body
    assert (await server.chat("m:a")).whole
    os.kill(server.pid, signal.SIGHUP)
    await until(lambda: "reload refused" in server.log, what="the log line")
    assert (await server.chat("m:a")).whole


async def test_sighup_reloads(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake()})
    server.write({"memory": "16GiB", "models": {"m": {"variants": {"a": fake(), "b": fake()}}}})
    os.kill(server.pid, signal.SIGHUP)
    async with asyncio.timeout(10):
        while "m:b" not in await server.rows():
            await asyncio.sleep(0.02)


async def test_sighup_makes_a_removed_admin_socket_anew_and_one_that_is_there_stays(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake()})
    path = server.home / "admin.sock"
    made = path.stat().st_ino
    os.kill(server.pid, signal.SIGHUP)
    await until(lambda: server.log.count('"reloaded"') == 1, what="the first reload")
    assert path.stat().st_ino == made
    path.unlink()
    os.kill(server.pid, signal.SIGHUP)
    await until(lambda: server.log.count('"reloaded"') == 2, what="the second reload")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (await server.row("m:a"))["state"] == "stopped"
    assert await server.stop() == 0
    assert not path.exists()


async def test_a_server_may_hold_as_many_files_open_as_its_hard_limit_allows(gearshift: StartServer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        server = await gearshift({"a": fake()})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (raised(512, hard), hard)


@pytest.mark.parametrize("options", ["ro", "size=40k"], ids=["read-only", "full"])
async def test_a_state_folder_that_cannot_be_written_is_a_clear_error(gearshift: StartServer, options: str) -> None:
    """In a mount namespace of its own, so that nobody needs root."""
    server = await gearshift({"a": fake()}, run=False)
    server.home.mkdir()
    script = (
        f"mount -t tmpfs -o {options} tmpfs {server.home} || exit 9; "
        f"head -c 1000000 /dev/zero > {server.home}/fill 2>/dev/null; "
        f"exec {sys.executable} -m gearshift serve --config {server.config}"
    )
    assert shutil.which("unshare")
    code, said = run_serve(server, "unshare", "--user", "--mount", "--map-root-user", "sh", "-c", script)
    assert code == 1, said
    assert str(server.home) in said
    assert "Traceback" not in said


@pytest.mark.timeout(300)
async def test_five_hundred_swaps_in_a_row_leave_nothing_and_grow_nothing(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(), "b": fake()})
    for variant in ("m:a", "m:b") * 10:
        assert (await server.chat(variant, max_tokens=1)).whole
    before = resources(server.pid)
    for variant in ("m:a", "m:b") * 240:
        answer = await server.chat(variant, max_tokens=1)
        assert answer.status == 200, answer.body
        assert answer.whole
    after = resources(server.pid)
    assert after["descriptors"] <= before["descriptors"] + 4
    assert after["memory_kib"] <= before["memory_kib"] + 20 * 1024
    assert after["threads"] <= before["threads"] + 2
    assert await server.stop() == 0
    assert marked(server.home) == []


def resources(pid: int) -> dict[str, int]:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "memory_kib": int(status["VmRSS"].split()[0]),
        "threads": int(status["Threads"]),
    }


async def test_a_log_whose_reader_has_gone_stops_nothing(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(), "b": fake()}, run=False)
    server.home.mkdir()
    reader, writer = os.pipe()
    server.process = subprocess.Popen(
        [sys.executable, "-m", "gearshift", "serve", "--config", str(server.config)],
        env={**os.environ, "GEARSHIFT_HOME": str(server.home)},
        stderr=writer,
    )
    os.close(writer)
    async with asyncio.timeout(20):
        while not await server._answers():
            await asyncio.sleep(0.02)
    os.close(reader)
    for variant in ("m:a", "m:b", "m:a"):
        assert (await server.chat(variant)).whole
    assert await server.stop() == 0
