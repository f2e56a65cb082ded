"""A stop is verified: whatever the tree did, afterwards nothing of it is left."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from fakes.living import alive
from gearshift.domain.device import Device, MemoryReading
from gearshift.domain.errors import GearshiftError, LoadFailedError, StopIncompleteError
from gearshift.domain.launch import StopRule
from gearshift.domain.paths import Paths
from gearshift.domain.units import GIB
from gearshift.hardware import FakeMemory
from gearshift.supervisor import LocalLauncher
from gearshift.supervisor.ports import port_free
from supervisor.conftest import GPU, SpecOf

pytestmark = pytest.mark.anyio


async def test_an_engine_that_obeys_leaves_with_its_own_status(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    spec = spec_of()
    child = await launcher.launch(spec)
    await child.ready()
    pids = child.pids
    report = await child.stop()
    assert len(pids) == 1
    assert alive(pids) == []
    assert (report.exit_code, report.killed) == (0, False)
    assert report.exit_s <= report.memory_back_s <= report.total_s
    assert port_free(spec.endpoint.host, spec.endpoint.port)


@pytest.mark.parametrize(
    "grandchild",
    [
        {},
        {"grandchild_ignores_sigterm": True},
        {"grandchild_setsid": True, "grandchild_ignores_sigterm": True},
        {"grandchild_rename": "kworker/0:1", "grandchild_ignores_sigterm": True},
        {"grandchild_double_fork": True, "grandchild_ignores_sigterm": True},
        {
            "grandchild_double_fork": True,
            "grandchild_setsid": True,
            "grandchild_rename": "VLLM::Worker",
            "grandchild_ignores_sigterm": True,
            "environment_wipe": True,
            "rename": "VLLM::EngineCore",
        },
    ],
    ids=["plain", "ignores SIGTERM", "own session", "renamed", "double fork", "everything at once"],
)
async def test_a_grandchild_goes_with_its_engine(
    launcher: LocalLauncher, spec_of: SpecOf, grandchild: dict[str, Any]
) -> None:
    child = await launcher.launch(spec_of(fork_grandchild=True, grace_s=0.2, **grandchild))
    await child.ready()
    pids = child.pids
    assert len(pids) == 2
    report = await child.stop()
    assert alive(pids) == []
    assert report.killed == bool(grandchild)


async def test_an_engine_that_ignores_sigterm_is_killed_after_its_grace(
    launcher: LocalLauncher, spec_of: SpecOf
) -> None:
    child = await launcher.launch(spec_of(ignore_sigterm=True, grace_s=0.1))
    await child.ready()
    pids = child.pids
    report = await child.stop()
    assert alive(pids) == []
    assert (report.exit_code, report.killed) == (-9, True)


async def test_a_stop_while_loading_fails_the_wait_for_it(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of(load_seconds=60))
    waiting = asyncio.create_task(child.ready())
    await asyncio.sleep(0)
    pids = child.pids
    await child.stop()
    with pytest.raises(LoadFailedError, match="stopped while it was loading"):
        await waiting
    assert alive(pids) == []


async def test_stopping_twice_is_stopping_once(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of())
    await child.ready()
    first, second = await asyncio.gather(child.stop(), child.stop())
    assert first == second == await child.stop()
    assert child.pids == ()


async def test_a_second_stop_may_shorten_the_grace_of_the_first(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of(ignore_sigterm=True, grace_s=600))
    await child.ready()
    slow = asyncio.create_task(child.stop())
    await asyncio.sleep(0)
    report = await child.stop(grace_s=0)
    assert report.killed
    assert await slow == report


async def test_an_asked_stop_is_no_end(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of())
    await child.ready()
    ended = asyncio.ensure_future(child.ended())
    await child.stop()
    await asyncio.sleep(0)
    assert not ended.done()
    ended.cancel()


async def test_memory_that_stays_is_named_and_may_come_back_for_the_next_stop(
    launcher: LocalLauncher, spec_of: SpecOf, memory: FakeMemory
) -> None:
    child = await launcher.launch(spec_of())
    await child.ready()
    (pid,) = child.pids
    memory.held, memory.lingering = {GPU: {pid: 3 * GIB}}, True
    with pytest.raises(StopIncompleteError, match=rf"3 GiB of {GPU} did not come back, held by pid {pid}"):
        await child.stop()
    assert alive([pid]) == []
    memory.held = {}
    assert (await child.stop()).memory_back_s >= 0


async def test_memory_that_nobody_holds_is_missed_as_well(
    launcher: LocalLauncher, spec_of: SpecOf, memory: FakeMemory
) -> None:
    child = await launcher.launch(spec_of())
    await child.ready()
    memory.residue = {GPU: 2 * GIB}
    with pytest.raises(StopIncompleteError, match=r"2 GiB .* no process that the driver names"):
        await child.stop()
    memory.residue = {}
    await child.stop()


class LostGpu:
    """A driver that stops answering when told to."""

    lost = False

    def devices(self) -> tuple[Device, ...]:
        return (Device(GPU, 0, "Lost GPU", GIB),)

    def read(self, devices: Collection[str], pids: Collection[int]) -> Mapping[str, MemoryReading]:
        if self.lost:
            msg = f"{GPU} is lost, asked for {len(devices)} devices and {len(pids)} processes"
            raise GearshiftError(msg)
        return {GPU: MemoryReading(GPU, GIB, 0)}


async def test_a_driver_that_stopped_answering_does_not_keep_an_engine_running(paths: Paths, spec_of: SpecOf) -> None:
    memory = LostGpu()
    async with LocalLauncher(paths, memory) as launcher:
        child = await launcher.launch(spec_of())
        await child.ready()
        pids, memory.lost = child.pids, True
        with pytest.raises(StopIncompleteError, match="is lost"):
            await child.stop()
        assert alive(pids) == []
        with pytest.raises(LoadFailedError, match="is lost"):
            await launcher.launch(spec_of())
        memory.lost = False


async def test_a_port_that_somebody_else_took_meanwhile_is_named(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    spec = spec_of(refuse_port=True)
    child = await launcher.launch(spec)
    other = await asyncio.start_server(lambda _, writer: writer.close(), spec.endpoint.host, spec.endpoint.port)
    stopping = asyncio.create_task(child.stop())
    async with other:
        done, _ = await asyncio.wait({stopping}, timeout=0.3)
        assert not done
    await stopping


async def test_a_stop_command_runs_instead_of_the_first_signal(
    launcher: LocalLauncher, spec_of: SpecOf, tmp_path: Path
) -> None:
    mark = tmp_path / "stopped"
    command = (sys.executable, "-S", "-c", f"open({str(mark)!r}, 'w').close()")
    child = await launcher.launch(spec_of(stop=StopRule(grace_s=5, command=command)))
    await child.ready()
    pids = child.pids
    await child.stop()
    assert mark.exists()
    assert alive(pids) == []


async def test_leaving_the_launcher_stops_every_child(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    children = [await launcher.launch(spec_of(fork_grandchild=True)) for _ in range(3)]
    for child in children:
        await child.ready()
    pids = [pid for child in children for pid in child.pids]
    await launcher.__aexit__(None, None, None)
    assert len(pids) == 6
    assert alive(pids) == []


async def test_fifty_cycles_leave_no_descriptor_behind(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    async def cycle() -> None:
        child = await launcher.launch(spec_of())
        await child.ready()
        await child.stop()

    await cycle()
    before = open_files()
    for _ in range(10):
        await asyncio.gather(*(cycle() for _ in range(5)))
    async with asyncio.timeout(5):
        while open_files() > before:  # the state file is being written now and then
            await asyncio.sleep(0.005)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
