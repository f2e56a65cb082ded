"""One Gearshift per state folder, and a clear word when the folder cannot be used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths, resolve_paths
from gearshift.hardware import FakeMemory
from gearshift.supervisor import LocalLauncher, StateLock
from gearshift.supervisor.lock import Holder, lock_holder
from gearshift.supervisor.state_file import ChildRecord, StateFile

HOLDER = """
import sys
from gearshift.domain.paths import resolve_paths
from gearshift.supervisor import StateLock
with StateLock(resolve_paths({"GEARSHIFT_HOME": sys.argv[1]})):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(paths: Paths) -> Iterator[int]:
    """Another process that holds the lock; its pid."""
    command = [sys.executable, "-c", HOLDER, str(paths.state)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.kill()


def test_a_second_server_on_the_folder_is_refused_and_told_who_has_it(paths: Paths) -> None:
    with holder(paths) as pid:
        with pytest.raises(GearshiftError, match=rf"another Gearshift runs on .*: pid {pid} \(.*python") as caught:
            StateLock(paths).__enter__()
        assert "gearshift stop" in (caught.value.hint or "")


def test_the_lock_goes_with_its_holder_however_that_ends(paths: Paths) -> None:
    with holder(paths):
        pass
    with StateLock(paths):
        assert paths.lock.read_text() == f"{os.getpid()}\n"


def test_a_released_lock_can_be_taken_again(paths: Paths) -> None:
    lock = StateLock(paths)
    with lock:
        pass
    with lock:
        assert paths.lock.exists()


def test_a_second_server_is_refused_while_the_first_lives_on_a_folder_that_was_removed(paths: Paths) -> None:
    with holder(paths) as pid:
        shutil.rmtree(paths.state)
        with pytest.raises(GearshiftError, match=rf"removed under it: pid {pid} \(.*python") as caught:
            StateLock(paths).__enter__()
        assert f"kill -TERM {pid}" in (caught.value.hint or "")
        assert lock_holder(paths.lock) == Holder(pid, deleted=True)
    with StateLock(paths):
        pass


def test_a_holder_knows_that_its_lock_was_removed_or_replaced(paths: Paths) -> None:
    lock = StateLock(paths)
    assert not lock.lost
    with lock:
        assert not lock.lost
        paths.lock.unlink()
        assert lock.lost
        paths.lock.write_text("")
        assert lock.lost


def test_who_holds_a_lock_can_be_asked_without_taking_it(paths: Paths) -> None:
    assert lock_holder(paths.lock) is None
    with holder(paths) as pid:
        assert lock_holder(paths.lock) == Holder(pid)
    assert lock_holder(paths.lock) is None


@pytest.fixture
def unusable(tmp_path: Path) -> Paths:
    """A state folder that cannot be made, whoever we are: a file is in its place."""
    (tmp_path / "file").write_text("")
    return resolve_paths({"GEARSHIFT_HOME": str(tmp_path / "file" / "state")})


@pytest.fixture
def full(paths: Paths) -> Paths:
    """A state folder whose disk has no room for the state file."""
    paths.children.with_name(f"{paths.children.name}.{os.getpid()}.new").symlink_to("/dev/full")
    return paths


def test_a_folder_that_cannot_be_made_is_told(unusable: Paths) -> None:
    with pytest.raises(GearshiftError, match=r"the state folder .* cannot be used: Not a directory") as caught:
        StateLock(unusable).__enter__()
    assert "GEARSHIFT_HOME" in (caught.value.hint or "")


@pytest.mark.anyio
async def test_a_launcher_refuses_a_folder_that_cannot_be_made(unusable: Paths, memory: FakeMemory) -> None:
    with pytest.raises(GearshiftError, match="cannot be used: Not a directory"):
        await LocalLauncher(unusable, memory).__aenter__()


@pytest.mark.anyio
async def test_a_launcher_refuses_a_full_disk_at_its_start(full: Paths, memory: FakeMemory) -> None:
    with pytest.raises(GearshiftError, match="its state file cannot be written"):
        await LocalLauncher(full, memory).__aenter__()


def test_a_disk_that_fills_up_later_keeps_the_last_whole_state(paths: Paths) -> None:
    file, record = StateFile(paths.children), ChildRecord("m-1", "fake:a", 1, ())
    assert file.write([record])
    paths.children.with_name(f"{paths.children.name}.{os.getpid()}.new").symlink_to("/dev/full")
    assert not file.write([])
    assert StateFile(paths.children).read() == (record,)
    assert file.write([]), "the draft was removed, so the next write has room again"


def test_an_unchanged_state_is_not_written_again(paths: Paths) -> None:
    file = StateFile(paths.children)
    file.write([])
    paths.children.unlink()
    assert file.write([])
    assert not paths.children.exists()
