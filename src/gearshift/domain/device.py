"""GPUs and the memory on them, seen through one port so that "memory back" can be checked and faked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

CPU_DEVICE = "cpu"  # the id of the one device a box without a GPU has


@dataclass(frozen=True, slots=True)
class Device:
    """One thing that holds weights: a GPU by UUID, or the host's memory as ``cpu``."""

    id: str  # "GPU-…" (UUID) or "cpu"
    index: int | None  # NVML's index; CUDA's may differ, so engines are given the UUID
    name: str
    total_bytes: int
    bandwidth: float | None = None  # peak bytes/s of its memory as the driver tells it; None = it does not


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Memory of one device at one moment, in bytes; ``by_pid`` is what each process holds of it."""

    device: str
    total_bytes: int
    used_bytes: int
    by_pid: Mapping[int, int] = field(default_factory=dict)


class DeviceMemory(Protocol):
    """Reads device memory: NVML where there is a GPU, process memory on a CPU box, a fake in tests."""

    def devices(self) -> tuple[Device, ...]:
        """Every device of this box, GPUs first; just the CPU device where there is no GPU."""
        ...

    def read(self, devices: Collection[str], pids: Collection[int]) -> Mapping[str, MemoryReading]:
        """Readings by device id. ``pids`` are the processes of interest where the box cannot list them itself.

        Raises GearshiftError when a driver does not answer.
        """
        ...
