"""The host's memory, cores and load, as far as this process may use them."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from gearshift.domain.units import KIB

_NO_LIMIT = 1 << 60  # cgroup v1 writes a number near 2^63 for "no limit"


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Host RAM in bytes. ``total`` and ``available`` are clamped to the cgroup's limit where there is one."""

    total_bytes: int
    available_bytes: int
    swap_total_bytes: int
    swap_free_bytes: int
    limit_bytes: int | None = None  # the cgroup's, None = none


def host_memory(*, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> HostMemory:
    """RAM and swap now, from /proc/meminfo and this process's cgroup (v2 or v1)."""
    facts = _meminfo(proc / "meminfo")
    limit, used = _cgroup(proc, cgroups)
    total, available = facts["MemTotal"], facts.get("MemAvailable", facts["MemFree"])
    if limit is not None:
        total = min(total, limit)
        available = min(available, max(0, limit - used))
    return HostMemory(total, available, facts.get("SwapTotal", 0), facts.get("SwapFree", 0), limit)


def core_count() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


def cpu_name(*, proc: Path = Path("/proc")) -> str:
    """What the processor calls itself, else its architecture: ARM kernels give no name."""
    named = (line.partition(":")[2].strip() for line in _lines(proc / "cpuinfo") if line.startswith("model name"))
    return next(named, "") or platform.machine()


def load_average() -> float:
    """Runnable processes over the last minute."""
    return os.getloadavg()[0]


def _meminfo(path: Path) -> dict[str, int]:
    pairs = (line.split(":", 1) for line in path.read_text().splitlines() if line.endswith(" kB"))
    return {name: int(value.split()[0]) * KIB for name, value in pairs}


def _cgroup(proc: Path, cgroups: Path) -> tuple[int | None, int]:
    """The tightest memory limit on the way up from our cgroup, and the use counted against it.

    Pages of files that nobody looked at lately (weights read once) are counted as used, and given up when memory is
    wanted: like MemAvailable, the use is taken without them.
    """
    tightest: tuple[int | None, int] = (None, 0)
    for folder, (limit_file, used_file, cache) in _cgroup_folders(proc, cgroups):
        limit = _number(folder / limit_file)
        if limit is not None and limit < (tightest[0] or _NO_LIMIT):
            tightest = (limit, max(0, (_number(folder / used_file) or 0) - _cached(folder, cache)))
    return tightest


def _cached(folder: Path, name: str) -> int:
    pairs = (line.split() for line in _lines(folder / "memory.stat"))
    return next((int(pair[1]) for pair in pairs if pair[0] == name), 0)


def _cgroup_folders(proc: Path, cgroups: Path) -> list[tuple[Path, tuple[str, str, str]]]:
    """Our cgroup and those above it, each with the files of its limit and use and the line of its file cache."""
    found = []
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            root, files = cgroups, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = cgroups / "memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        leaf = root / place.lstrip("/")
        found += [(folder, files) for folder in (leaf, *leaf.parents) if folder.is_relative_to(root)]
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    """None for "max", for an absent file, and for a limit too large to be one."""
    try:
        value = int(path.read_text())
    except (OSError, ValueError):
        return None
    return value if value < _NO_LIMIT else None
