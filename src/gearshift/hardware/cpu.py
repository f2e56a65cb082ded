"""The one device of a box without a GPU: host memory, read process by process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from gearshift.domain.device import CPU_DEVICE, Device, MemoryReading
from gearshift.domain.units import KIB
from gearshift.hardware.host import host_memory


class CpuMemory:
    """Host memory as the device ``cpu``; ``used_bytes`` is what the processes asked about hold, and no others."""

    def __init__(self, budget_bytes: int | None = None, *, proc: Path = Path("/proc")) -> None:
        host = host_memory().total_bytes
        self._total = host if budget_bytes is None else min(budget_bytes, host)
        self._proc = proc

    def devices(self) -> tuple[Device, ...]:
        return (Device(CPU_DEVICE, None, "host memory", self._total),)

    def read(self, devices: Collection[str], pids: Collection[int]) -> Mapping[str, MemoryReading]:
        if CPU_DEVICE not in devices:
            return {}
        by_pid = {pid: held for pid in pids if (held := process_bytes(self._proc, pid)) > 0}
        return {CPU_DEVICE: MemoryReading(CPU_DEVICE, self._total, sum(by_pid.values()), by_pid)}


def process_bytes(proc: Path, pid: int) -> int:
    """Resident bytes of one process: its proportional share (Pss) where we may read it, else Rss; 0 when it is gone.

    Pss counts a page of a file mapped by several workers once in all, as weights are.
    """
    folder = proc / str(pid)
    try:
        rollup = (folder / "smaps_rollup").read_text()
    except OSError:
        return _field(folder / "status", "VmRSS:")
    return _parse(rollup, "Pss:")


def _field(path: Path, name: str) -> int:
    try:
        return _parse(path.read_text(), name)
    except OSError:
        return 0


def _parse(text: str, name: str) -> int:
    line = next((line for line in text.splitlines() if line.startswith(name)), None)
    return int(line.split()[1]) * KIB if line else 0
