"""Engines do not outlive their Gearshift, and what outlives both it and its keepers is found at the next start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import fakes.gearshift_like
from fakes.living import alive, wait_for
from gearshift.domain.paths import Paths
from gearshift.hardware.processes import below, read_process, snapshot
from gearshift.supervisor import StateLock, reap_orphans
from gearshift.supervisor.own_processes import marker_of
from gearshift.supervisor.state_file import ChildRecord, Member, StateFile, marker_prefix

HARD = {
    "fork_grandchild": True,
    "grandchild_setsid": True,
    "grandchild_ignores_sigterm": True,
    "grandchild_rename": "VLLM::Worker",
    "grandchild_double_fork": True,
    "ignore_sigterm": True,
}


def test_a_marker_that_is_no_text_is_nobodys_and_stops_no_start() -> None:
    with subprocess.Popen(["sleep", "60"], env={b"GEARSHIFT_CHILD": b"\xff"}) as stranger:
        try:
            wait_for(Path(f"/proc/{stranger.pid}/environ").read_bytes)  # empty until its exec has come that far
            assert marker_of(stranger.pid) == "\ufffd"
        finally:
            stranger.kill()


@contextmanager
def gearshift(paths: Paths, *engines: dict[str, Any], processes: int) -> Iterator[tuple[int, list[int]]]:
    """A Gearshift-like parent with these engines: its pid and those of all processes below it, keepers included."""
    script = Path(fakes.gearshift_like.__file__)
    command = [sys.executable, str(script), json.dumps(engines), str(processes)]
    source = script.parents[1]
    env = {**os.environ, "GEARSHIFT_HOME": str(paths.state), "PYTHONPATH": os.pathsep.join([str(source), *sys.path])}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as parent, ExitStack() as stack:
        assert parent.stdout
        stack.callback(parent.kill)
        pids = json.loads(parent.stdout.readline())
        stack.callback(_kill, pids)
        yield parent.pid, pids


def _kill(pids: list[int]) -> None:
    for pid in alive(pids):
        os.kill(pid, signal.SIGKILL)


def test_engines_of_a_killed_gearshift_are_ended_by_their_keepers(paths: Paths) -> None:
    with gearshift(paths, {}, HARD, processes=5) as (parent, pids):
        assert len(pids) == 6  # those on record, and the spare keeper
        os.kill(parent, signal.SIGKILL)
        wait_for(lambda: not alive(pids))


def test_what_outlives_gearshift_and_its_keepers_is_ended_at_the_next_start(paths: Paths) -> None:
    with gearshift(paths, HARD, processes=3) as (parent, pids):
        _kill_with_its_keepers(parent)
        wait_for(lambda: len(alive(pids)) == 1)  # the parent-death signal took the engine, the worker stays
        (worker,) = alive(pids)
        with StateLock(paths):
            reaped = reap_orphans(paths, grace_s=0.1)
        assert alive(pids) == []
        assert [(one.pid, one.variant) for one in reaped] == [(worker, "fake:0")]
        assert "VLLM::Worker" in str(reaped[0])


def test_a_worker_without_a_marker_is_known_by_the_state_file(paths: Paths) -> None:
    with gearshift(paths, {**HARD, "environment_wipe": True}, processes=3) as (parent, pids):
        _kill_with_its_keepers(parent)
        wait_for(lambda: len(alive(pids)) == 1)
        assert len(reap_orphans(paths, grace_s=0.1)) == 1
        assert alive(pids) == []


def test_a_worker_without_a_state_file_is_known_by_its_marker(paths: Paths) -> None:
    with gearshift(paths, HARD, processes=3) as (parent, pids):
        _kill_with_its_keepers(parent)
        wait_for(lambda: len(alive(pids)) == 1)
        paths.children.write_text("{ torn")
        (reaped,) = reap_orphans(paths, grace_s=0.1)
        assert reaped.variant is None
        assert alive(pids) == []


def _kill_with_its_keepers(parent: int) -> None:
    """Freeze it first, so that it cannot react to the end of its keepers."""
    os.kill(parent, signal.SIGSTOP)
    keepers = [process.pid for process in below([parent], snapshot()) if process.parent == parent]
    for pid in (*keepers, parent):
        os.kill(pid, signal.SIGKILL)


def test_nothing_is_reaped_where_nothing_was_left(paths: Paths) -> None:
    assert reap_orphans(paths) == ()


@pytest.fixture
def bystander() -> Iterator[int]:
    """A process that is not ours."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize(
    "falsify",
    [
        pytest.param(
            lambda document: document["children"][0]["members"][0].update(start=1), id="its pid was used again"
        ),
        pytest.param(lambda document: document.update(boot="another boot"), id="the box was started again"),
        pytest.param(lambda document: document.update(version=99), id="another version's file"),
        pytest.param(lambda document: document.pop("children"), id="a torn file"),
    ],
)
def test_a_bystander_is_left_alone(paths: Paths, bystander: int, falsify: Callable[[dict[str, Any]], object]) -> None:
    record_of(paths, bystander)
    document = json.loads(paths.children.read_text())
    falsify(document)
    paths.children.write_text(json.dumps(document))
    assert reap_orphans(paths) == ()
    assert alive([bystander])


def test_a_recorded_process_is_reaped(paths: Paths, bystander: int) -> None:
    """The same record unfalsified, so that the tests above can fail."""
    record_of(paths, bystander)
    assert [one.pid for one in reap_orphans(paths)] == [bystander]
    assert alive([bystander]) == []
    assert StateFile(paths.children).read() == ()


def record_of(paths: Paths, pid: int) -> None:
    process = read_process(pid)
    assert process
    member = Member(pid, process.start, process.session, "sleep 60")
    assert StateFile(paths.children).write([ChildRecord(marker_prefix(paths) + "1", "fake:a", 1, (member,))])
