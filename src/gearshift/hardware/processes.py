"""What /proc says about processes. A process is identified by pid and start time: pids are used again."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

COMMAND_CHARS = 200  # of a command line in messages
UNSEEN = "a process that cannot be seen"  # another user's, or in another pid namespace

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/PID/stat. Equal are readings of the same process, whatever it did between them."""

    pid: int
    start: int  # clock ticks since boot
    parent: int = field(compare=False)
    session: int = field(compare=False)
    state: str = field(compare=False)  # "R", "S", "D", "Z" (dead, not collected), ...
    cpu_s: float = field(compare=False)

    @property
    def alive(self) -> bool:
        return self.state not in "ZX"

    def __str__(self) -> str:
        return f"pid {self.pid} ({command_line(self.pid) or 'no command line'})"


@dataclass(frozen=True, slots=True)
class Activity:
    """What a tree has done so far: CPU seconds and bytes of storage read and written."""

    cpu_s: float
    io_bytes: int


def read_process(pid: int) -> Process | None:
    """One process now, or None when there is none. Raises OSError when we cannot look: that is not the same."""
    try:
        raw = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = raw.rpartition(b")")[2].split()  # from field 3 on; comm may hold spaces and brackets
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
    return Process(pid, int(fields[19]), int(fields[1]), int(fields[3]), fields[0].decode(), cpu_s)


def snapshot() -> dict[int, Process]:
    """Every process of the box by pid. Raises OSError when we cannot look, for want of a descriptor."""
    pids = (int(name) for name in os.listdir(_PROC) if name.isdigit())  # noqa: PTH208 - a third of the time
    return {pid: process for pid in pids if (process := read_process(pid))}


def below(roots: Iterable[int], everything: dict[int, Process]) -> list[Process]:
    """Living descendants of ``roots``, parents first; the roots themselves are not among them."""
    children: dict[int, list[Process]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    level = list(roots)
    while level:
        found += (grown := [child for pid in level for child in children.get(pid, ())])
        level = [process.pid for process in grown]
    return [process for process in found if process.alive]


def command_line(pid: int) -> str:
    """Its command line as one string, shortened; its bracketed name where that is empty; "" when it is gone."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        text = b" ".join(words).decode("utf-8", "replace").strip()
        name = (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""
    return text[:COMMAND_CHARS] or f"[{name}]"


def activity(pids: Iterable[int]) -> Activity:
    """What these processes have done so far; those that are gone count as nothing. Raises OSError as `snapshot`."""
    cpu_s, io_bytes = 0.0, 0
    for pid in pids:
        if process := read_process(pid):
            cpu_s += process.cpu_s
            io_bytes += _storage_bytes(pid)
    return Activity(cpu_s, io_bytes)


def _storage_bytes(pid: int) -> int:
    """Bytes of storage traffic; pages of mapped weights count here and hardly cost CPU time."""
    try:
        text = (_PROC / str(pid) / "io").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(("read_bytes", "write_bytes")))


def listening_inodes(port: int) -> frozenset[str]:
    """Socket inodes that listen on a TCP port, on any address of this network namespace."""
    wanted = f":{port:04X}"
    return frozenset(
        fields[9] for fields in _sockets() if fields[3] == "0A" and fields[1].endswith(wanted)
    )  # columns of /proc/net/tcp: 1 local address, 3 state (0A = LISTEN), 9 inode


def _sockets() -> Iterator[list[str]]:
    for name in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        yield from (line.split() for line in lines)


def holder_of(inodes: Collection[str], pids: Iterable[int]) -> int | None:
    """The first of ``pids`` that has one of these sockets open."""
    names = {f"socket:[{inode}]" for inode in inodes}
    return next((pid for pid in pids if names & _open_files(pid)), None)


def listener(port: int) -> str | None:
    """Who listens on a TCP port, in words for a message; None when nobody does."""
    inodes = listening_inodes(port)
    if not inodes:
        return None
    everything = snapshot()
    holder = holder_of(inodes, everything)
    return UNSEEN if holder is None else str(everything[holder])


def opener_of(path: str) -> int | None:
    """A process that has this very file open, as the kernel names it; other users' cannot be seen."""
    return next((pid for pid in snapshot() if path in _open_files(pid)), None)


def _open_files(pid: int) -> set[str]:
    folder = f"/proc/{pid}/fd"
    found = set()
    try:
        for name in os.listdir(folder):  # noqa: PTH208 - called for every process of a box
            try:
                found.add(os.readlink(f"{folder}/{name}"))  # noqa: PTH115 - likewise
            except OSError:  # closed meanwhile
                continue
    except OSError:  # gone, or another user's
        pass
    return found
