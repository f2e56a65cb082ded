"""The client's view of itself and of the box."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time

import pytest

from gearshift.bench import cores
from gearshift.bench.cores import CoreTimes, listener, read_core_times
from gearshift.bench.truth import Script, serve
from gearshift.bench.watch import watching


@pytest.mark.anyio
async def test_a_blocked_loop_shows_as_lag_and_work_as_cpu() -> None:
    async with watching() as watch:
        end = time.perf_counter() + 0.1
        while time.perf_counter() < end:  # keeps the loop from waking its timer
            pass
    assert watch.report.wall_s >= 0.1
    assert watch.report.cpu > 0
    assert watch.report.foreign_cpu is None  # no engine is known, so others' work cannot be told from it


@pytest.mark.anyio
async def test_a_late_timer_is_lag() -> None:
    async with watching() as watch:
        await asyncio.sleep(0.02)
        time.sleep(0.05)  # noqa: ASYNC251 - blocking the loop is the point
        await asyncio.sleep(0.02)
    assert watch.report.loop_lag_s > 0.03


@pytest.mark.anyio
async def test_the_listener_of_a_local_port_is_found() -> None:
    async with serve(Script()) as server:
        assert listener(int(server.url.rpartition(":")[2])) == os.getpid()


def test_a_port_nobody_listens_on_has_no_listener() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, not listening
        assert listener(held.getsockname()[1]) is None


def test_what_others_used_is_what_neither_we_nor_the_engine_did() -> None:
    before = CoreTimes(busy_s=100.0, own_s=1.0, engine_s=10.0)
    after = CoreTimes(busy_s=104.0, own_s=1.5, engine_s=12.0)
    assert after.foreign_since(before, 2.0) == pytest.approx(0.75)
    assert CoreTimes(104.0, 1.5, None).foreign_since(before, 2.0) is None


def test_the_engines_time_counts_its_tree_and_never_ourselves() -> None:
    parent = read_core_times([os.getppid()])
    assert parent.engine_s is not None
    assert read_core_times([os.getpid()]).engine_s == 0
    assert read_core_times([]).engine_s is None


def test_a_tree_is_the_same_by_the_kernels_lists_and_by_every_processs_parent() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as child:
        while not (grandchildren := cores._children(child.pid)):
            time.sleep(0.01)
        assert list(cores._by_scan()(child.pid)) == grandchildren
        assert cores._trees([child.pid]) == {child.pid, *grandchildren}
        child.communicate(b"\n")
