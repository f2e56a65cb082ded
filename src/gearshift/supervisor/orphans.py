"""Finding and ending engine processes that no keeper vouches for any more."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths
from gearshift.hardware import processes
from gearshift.hardware.processes import Process
from gearshift.supervisor import own_processes
from gearshift.supervisor.state_file import ChildRecord, StateFile, marker_prefix

GRACE_S = 5.0
KILL_S = 10.0
_LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class Reaped:
    """A process that outlived the Gearshift that started it, now ended. ``variant`` None: only its marker told."""

    pid: int
    command: str
    variant: str | None

    def __str__(self) -> str:
        return f"pid {self.pid} of {self.variant or 'an unknown variant'}: {self.command}"


def survivors(records: Iterable[ChildRecord], is_ours: Callable[[str], bool]) -> dict[Process, str | None]:
    """Living processes of these launches, with their variant.

    Found by pid and start time, by the environment marker, by a session of which a recorded member still lives (the
    kernel gives no session id away while one does), and by descent from any of those.
    """
    everything = processes.snapshot()
    variants: dict[int, str | None] = {}
    for record in records:
        for pid in _of_record(record, everything):
            variants[pid] = record.variant
    by_marker = {record.marker: record.variant for record in records}
    for pid in everything.keys() - variants.keys() - {os.getpid()}:
        if (marker := own_processes.marker_of(pid)) and is_ours(marker):
            variants[pid] = by_marker.get(marker)
    for pid in tuple(variants):
        for child in processes.below([pid], everything):
            variants.setdefault(child.pid, variants[pid])
    return {everything[pid]: variant for pid, variant in variants.items() if everything[pid].alive}


def _of_record(record: ChildRecord, everything: dict[int, Process]) -> set[int]:
    known = {
        member.pid: everything[member.pid]
        for member in record.members
        if member.pid in everything and everything[member.pid].start == member.start
    }
    sessions = {process.session for process in known.values()}
    return {process.pid for process in everything.values() if process.session in sessions}


def end_all(find: Callable[[], Collection[Process]], *, grace_s: float, kill_s: float = KILL_S) -> Collection[Process]:
    """SIGTERM, wait, SIGKILL until none is found; returns what would not die. Blocks: run it in a thread.

    ``find`` is asked again and again, so that processes forked meanwhile are met too. Each is signalled by pid and
    start time, and collected if a subreaper inherited it.
    """
    left = _signal_until_gone(find, signal.SIGTERM, grace_s) if grace_s > 0 else find()
    return _signal_until_gone(find, signal.SIGKILL, kill_s) if left else left


def _signal_until_gone(find: Callable[[], Collection[Process]], number: int, deadline_s: float) -> Collection[Process]:
    """Signal each process once as it is found; what is left at the deadline."""
    end = time.monotonic() + deadline_s
    told: set[Process] = set()
    while left := find():
        for process in set(left) - told:
            own_processes.send(process, number)
        told.update(left)
        if time.monotonic() >= end:
            return left
        time.sleep(_LOOK_S)
        for process in told:
            own_processes.collect(process.pid)
    return ()


def reap_orphans(paths: Paths, *, grace_s: float = GRACE_S) -> tuple[Reaped, ...]:
    """End what a killed Gearshift left running on this state folder, verified, and say what it was.

    Call it with the StateLock held: a living Gearshift's engines look the same. ``grace_s`` is
    the time between SIGTERM and SIGKILL. Blocks up to that and 10 s. Raises GearshiftError naming what would not end.
    """
    prefix = marker_prefix(paths)
    file = StateFile(paths.children)
    records = file.read()

    def find() -> dict[Process, str | None]:
        return survivors(records, lambda marker: marker.startswith(prefix))

    found = {
        process: Reaped(process.pid, processes.command_line(process.pid), variant)
        for process, variant in find().items()
    }
    if left := end_all(find, grace_s=grace_s):
        names = ", ".join(str(process) for process in left)
        raise GearshiftError(
            f"engines of an earlier run would not end: {names}", hint="end them by hand, then start again"
        )
    file.write(())
    return tuple(found.values())
