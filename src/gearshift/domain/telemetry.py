"""What a GPU is doing, for whoever measures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment; None = it does not say."""

    device: str  # UUID
    clock_mhz: int | None = None  # of the multiprocessors
    memory_clock_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    used_bytes: int | None = None
    energy_j: float | None = None  # since the driver was loaded
    throttle: tuple[str, ...] = ()  # reasons that slow it at this moment, idle not counted: "power", "thermal"


class Telemetry(Protocol):
    """Reads every GPU of this box: NVML where there is one, a fake in tests."""

    def read(self) -> Sequence[GpuReading]:
        """Now; empty on a box without a GPU. Takes a few milliseconds and never raises."""
        ...
