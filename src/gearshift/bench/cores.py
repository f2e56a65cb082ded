"""CPU time from /proc: the whole box, this process, and the engine's process trees."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gearshift.hardware.processes import holder_of, listening_inodes, read_process, snapshot

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class CoreTimes:
    """CPU seconds used so far. ``engine_s`` is None when the engine's processes are not known on this box."""

    busy_s: float | None
    own_s: float
    engine_s: float | None

    def foreign_since(self, before: CoreTimes, wall_s: float) -> float | None:
        """Cores used by others since ``before``; None when that cannot be told from the engine's own work."""
        if self.busy_s is None or before.busy_s is None or self.engine_s is None or before.engine_s is None:
            return None
        others = (self.busy_s - before.busy_s) - (self.own_s - before.own_s) - (self.engine_s - before.engine_s)
        return max(0.0, others / wall_s) if wall_s else None


def read_core_times(engine_roots: Iterable[int]) -> CoreTimes:
    """Now. The engine's time counts its whole process trees."""
    roots = tuple(engine_roots)
    own = _process_s(os.getpid()) or 0.0
    engine = sum(_process_s(pid) or 0.0 for pid in _trees(roots)) if roots else None
    return CoreTimes(busy_s=_busy_s(), own_s=own, engine_s=engine)


def listener(port: int) -> int | None:
    """The process that listens on a local TCP port; None when it is not ours to see (other user, container, remote)."""
    inodes = listening_inodes(port)
    if not inodes:
        return None
    try:
        return holder_of(inodes, snapshot())
    except OSError:
        return None


def _busy_s() -> float | None:
    try:
        first = (_PROC / "stat").read_text().split("\n", 1)[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, *_ = (int(value) for value in first[1:])
    return (user + nice + system + irq + softirq) / _TICKS


def _process_s(pid: int) -> float | None:
    try:
        process = read_process(pid)
    except OSError:
        return None
    return process.cpu_s if process else None


def _trees(roots: Iterable[int]) -> set[int]:
    """The roots and all that descends from them, but for this process and what it started."""
    children_of = _children if (_PROC / "self/task" / str(os.getpid()) / "children").exists() else _by_scan()
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found and pid != os.getpid():
            found.add(pid)
            waiting += children_of(pid)
    return found


def _children(pid: int) -> list[int]:
    """By the kernel's own lists, one a thread: a twentieth of what looking at every process takes."""
    found: list[int] = []
    for file in (_PROC / str(pid) / "task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found += map(int, file.read_text().split())
    return found


def _by_scan() -> Callable[[int], Sequence[int]]:
    """By every process's parent, for kernels without such lists (CONFIG_PROC_CHILDREN)."""
    children: dict[int, list[int]] = {}
    with suppress(OSError):
        for process in snapshot().values():
            children.setdefault(process.parent, []).append(process.pid)
    return lambda pid: children.get(pid, ())
