"""Scripted GPUs for tests: memory attributed to processes by hand or by a control file, with what stays behind."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from gearshift.domain.device import Device, MemoryReading
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import parse_bytes

FAKE_GPUS = "GEARSHIFT_FAKE_GPUS"  # "2x24GiB", "2x24GiB:936" (GB/s) or "2x24GiB@/path/to/control.json"; for tests only
_SCRIPT = re.compile(r"(\d+)x([^@:]+)(?::(\d+))?(?:@(.+))?")


@dataclass
class FakeMemory:
    """GPUs whose contents a test sets.

    ``held``: device id -> pid -> bytes, counted while that process lives (``lingering``: or not).
    ``residue``: device id -> bytes in use that belong to nobody. ``control`` is a JSON file
    ``{"held": {device: {pid: bytes}}, "residue": {device: bytes}, "lingering": bool}`` read at every reading, so that
    another process may script this one.
    """

    gpus: tuple[Device, ...]
    held: dict[str, dict[int, int]] = field(default_factory=dict)
    residue: dict[str, int] = field(default_factory=dict)
    lingering: bool = False
    control: Path | None = None
    proc: Path = Path("/proc")

    @classmethod
    def parse(cls, script: str) -> Self:
        """GPUs from ``2x24GiB``: ids ``GPU-fake-0``... Raises GearshiftError."""
        match = _SCRIPT.fullmatch(script)
        try:
            size = parse_bytes(match[2]) if match else 0
        except ValueError:
            size = 0
        if not match or size == 0:
            msg = f"{FAKE_GPUS}={script!r} does not describe GPUs"
            raise GearshiftError(msg, hint="write for example 2x24GiB or 2x24GiB@/tmp/control.json")
        bandwidth = int(match[3]) * 1e9 if match[3] else None
        gpus = tuple(Device(f"GPU-fake-{index}", index, "Fake GPU", size, bandwidth) for index in range(int(match[1])))
        return cls(gpus, control=Path(match[4]) if match[4] else None)

    def devices(self) -> tuple[Device, ...]:
        return self.gpus

    def read(self, devices: Collection[str], pids: Collection[int]) -> Mapping[str, MemoryReading]:  # noqa: ARG002 - lists every process, as NVML does
        self._obey()
        return {gpu.id: self._reading(gpu) for gpu in self.gpus if gpu.id in devices}

    def _reading(self, gpu: Device) -> MemoryReading:
        held = {pid: count for pid, count in self.held.get(gpu.id, {}).items() if self.lingering or self._alive(pid)}
        return MemoryReading(gpu.id, gpu.total_bytes, sum(held.values()) + self.residue.get(gpu.id, 0), held)

    def _alive(self, pid: int) -> bool:
        return (self.proc / str(pid)).exists()

    def _obey(self) -> None:
        if self.control is None or not self.control.exists():
            return
        script = json.loads(self.control.read_text())
        self.held = {
            device: {int(pid): int(count) for pid, count in by_pid.items()}
            for device, by_pid in script.get("held", {}).items()
        }
        self.residue = {device: int(count) for device, count in script.get("residue", {}).items()}
        self.lingering = bool(script.get("lingering", False))
