"""A load ends in a token from our own engine, or in the reason why not."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from aiohttp import web

from fakes.engine_argv import fake_engine_argv
from fakes.living import alive
from gearshift.domain.errors import LoadFailedError
from gearshift.domain.launch import LaunchSpec
from gearshift.domain.variant import Probe
from gearshift.supervisor import LocalLauncher
from supervisor.conftest import SpecOf

pytestmark = pytest.mark.anyio


async def failing(launcher: LocalLauncher, spec: LaunchSpec) -> LoadFailedError:
    """The error of a load that must fail; the child is stopped."""
    child = await launcher.launch(spec)
    with pytest.raises(LoadFailedError) as caught:
        await child.ready()
    await child.stop()
    return caught.value


async def test_ready_means_loaded_and_probed(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of(load_seconds=0.3))
    report = await child.ready()
    assert report.total_s == pytest.approx(report.health_s + report.probe_s)
    assert report.health_s >= 0.3
    assert child.report.stage == "load_tensors"
    assert "load_tensors" in child.log_path.read_text()


@pytest.mark.parametrize("kind", ["chat", "completion", "embedding", "rerank", "none"])
async def test_each_kind_of_probe_is_answered(launcher: LocalLauncher, spec_of: SpecOf, kind: Any) -> None:
    child = await launcher.launch(spec_of(probe=Probe(kind)))
    assert (await child.ready()).total_s > 0


async def test_an_http_probe_asks_its_path(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    good = await launcher.launch(spec_of(probe=Probe("http", "/v1/models")))
    assert (await good.ready()).total_s > 0
    error = await failing(launcher, spec_of(probe=Probe("http", "/nowhere")))
    assert "failed its http probe: /nowhere answered 404" in error.message


async def test_without_a_health_path_the_probe_waits_for_the_load(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of(health_path=None, load_seconds=0.3))
    assert (await child.ready()).total_s >= 0.3


async def test_a_port_that_opens_late_is_waited_for(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of(port_delay=0.3))
    assert (await child.ready()).health_s >= 0.3


async def test_the_cause_in_mid_log_is_told_and_not_the_last_line(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    error = await failing(launcher, spec_of(crash_at_load="error: cudaMalloc failed: out of memory"))
    assert error.failure.cause == "cudaMalloc failed: out of memory"
    assert error.failure.line == "error: cudaMalloc failed: out of memory"
    assert error.hint == "do better"


async def test_a_death_without_a_known_cause_is_told_with_its_status_and_last_lines(
    launcher: LocalLauncher, spec_of: SpecOf
) -> None:
    error = await failing(launcher, spec_of(crash_at_load="odd thing", exit_code=3))
    assert "the engine exited with status 3; its last lines:" in error.failure.cause
    assert "main: exiting due to model loading error" in error.failure.cause


async def test_a_death_by_signal_is_named(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    error = await failing(launcher, spec_of(crash_at_load="odd thing", exit_code=-6))
    assert "was killed by SIGABRT" in error.failure.cause


async def test_what_a_dead_engine_left_running_is_ended(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    spec = spec_of(crash_at_load="odd thing", load_seconds=0.2, fork_grandchild=True, grandchild_setsid=True)
    child = await launcher.launch(spec)
    async with asyncio.timeout(5):
        while len(pids := child.pids) < 2:
            await asyncio.sleep(0.005)
        with pytest.raises(LoadFailedError):
            await child.ready()
        while alive(pids):
            await asyncio.sleep(0.005)


async def test_a_load_without_any_sign_of_life_has_stalled(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    error = await failing(launcher, spec_of(stall_at_load=True, timing={"stall_timeout_s": 0.6}))
    assert "its load stalled: no log line and no work for" in error.failure.cause
    assert "last stage: load_tensors" in error.failure.cause


async def test_a_load_has_a_deadline_however_lively_it_is(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    error = await failing(launcher, spec_of(load_seconds=60, timing={"load_timeout_s": 0.4}))
    assert "not ready within load_timeout (0.4 s)" in error.failure.cause


async def test_an_engine_that_is_healthy_but_gives_no_token_is_not_ready(
    launcher: LocalLauncher, spec_of: SpecOf
) -> None:
    error = await failing(launcher, spec_of(dead_health="hang", timing={"probe_timeout_s": 0.3}))
    assert "it is up but failed its chat probe: /v1/chat/completions gave no answer within 0.3 s" in error.message


async def test_a_failed_probe_tells_the_engines_own_words(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    error = await failing(launcher, spec_of(served_name="other"))
    assert "answered 404" in error.message
    assert "fake engine refuses model 'other'" in error.message
    assert "probe:" in (error.hint or "")


async def test_a_program_that_does_not_exist_fails_the_launch(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    with pytest.raises(LoadFailedError, match="/no/such/engine cannot be started: No such file or directory"):
        await launcher.launch(spec_of(argv=("/no/such/engine",)))


async def test_a_port_taken_before_the_launch_is_refused_with_its_holder(
    launcher: LocalLauncher, spec_of: SpecOf
) -> None:
    spec = spec_of()
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", spec.endpoint.port):
        with pytest.raises(
            LoadFailedError, match=rf"port {spec.endpoint.port} is already taken by pid {os.getpid()} \(.+\)"
        ):
            await launcher.launch(spec)


async def test_an_answer_from_somebody_elses_server_does_not_count(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    spec = spec_of(refuse_port=True)
    child = await launcher.launch(spec)
    app = web.Application()
    app.router.add_get("/health", _ok)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", spec.endpoint.port).start()
    with pytest.raises(
        LoadFailedError, match=rf"port {spec.endpoint.port} is answered by pid \d+ .*, not by the engine"
    ):
        await child.ready()
    await runner.cleanup()
    await child.stop()


async def _ok(_request: web.Request) -> web.Response:
    return web.Response()


async def test_a_flood_of_log_lines_neither_blocks_the_engine_nor_loses_the_last_stage(
    launcher: LocalLauncher, spec_of: SpecOf
) -> None:
    child = await launcher.launch(spec_of(log_flood=30_000))
    await child.ready()
    assert child.log_path.stat().st_size > 30_000 * 80


async def test_files_of_the_spec_are_written_before_the_start(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    spec = spec_of(files={"sub/check.txt": "hello"}, argv=("cat", "sub/check.txt"))
    child = await launcher.launch(spec)
    with pytest.raises(LoadFailedError, match="exited with status 0; its last lines: hello"):
        await child.ready()
    await child.stop()


async def test_the_last_ten_logs_of_a_variant_are_kept(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    for _ in range(12):
        child = await launcher.launch(spec_of(argv=("true",)))
        await child.stop()
    assert len(list(child.log_path.parent.glob("*.log"))) == 10
    assert child.log_path.exists()


async def test_an_engine_that_runs_elsewhere_is_ready_by_its_answers_alone(
    launcher: LocalLauncher, spec_of: SpecOf
) -> None:
    here = await launcher.launch(spec_of())
    await here.ready()
    outside = await launcher.launch(spec_of(argv=(), endpoint=here.spec.endpoint, owns_process=False))
    await outside.ready()
    assert outside.pids == ()
    assert (await outside.stop()).exit_code is None
    assert here.pids, "it is not ours to stop"


async def test_a_starter_that_detaches_its_server_is_ready_and_stopped_whole(
    launcher: LocalLauncher, spec_of: SpecOf
) -> None:
    spec = spec_of(owns_process=False)
    command = " ".join(fake_engine_argv(spec.endpoint.port))
    child = await launcher.launch(
        spec_of(owns_process=False, endpoint=spec.endpoint, argv=("sh", "-c", f"{command} &"))
    )
    await child.ready()
    (pid,) = child.pids
    await child.stop()
    assert alive([pid]) == []
