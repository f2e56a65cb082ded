"""GPU telemetry over a trial: sampled beside it, boiled down to what explains a figure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gearshift.domain.telemetry import GpuReading, Telemetry

_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class GpuReport:
    """One GPU over one trial. ``energy_j`` is what it drew over the whole trial."""

    device: str
    clock_mhz: tuple[int, int] | None  # least and most
    power_w: float | None  # mean
    temperature_c: int | None  # highest
    used_bytes: int | None  # highest
    energy_j: float | None
    throttle: tuple[str, ...]

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> GpuReport:
        """The report that ``dataclasses.asdict`` and JSON made a mapping of."""
        clock = stored["clock_mhz"]
        return cls(**{**stored, "clock_mhz": tuple(clock) if clock else None, "throttle": tuple(stored["throttle"])})


@dataclass(slots=True)
class GpuWatch:
    """Collects readings while its `watching_gpus` block runs."""

    readings: list[Sequence[GpuReading]] = field(default_factory=list)

    @property
    def reports(self) -> tuple[GpuReport, ...]:
        """One a GPU, in the order the box names them."""
        by_device: dict[str, list[GpuReading]] = {}
        for moment in self.readings:
            for reading in moment:
                by_device.setdefault(reading.device, []).append(reading)
        return tuple(_report(device, series) for device, series in by_device.items())


@asynccontextmanager
async def watching_gpus(telemetry: Telemetry | None) -> AsyncIterator[GpuWatch]:
    """Read at the begin, the end, and twice a second between; on a thread, so that no stamp waits for a driver."""
    watch = GpuWatch()
    if telemetry is None:
        yield watch
        return
    watch.readings.append(await asyncio.to_thread(telemetry.read))
    task = asyncio.create_task(_collect(telemetry, watch))
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        watch.readings.append(await asyncio.to_thread(telemetry.read))


async def _collect(telemetry: Telemetry, watch: GpuWatch) -> None:
    while True:
        await asyncio.sleep(_EVERY_S)
        watch.readings.append(await asyncio.to_thread(telemetry.read))


def _report(device: str, series: Sequence[GpuReading]) -> GpuReport:
    clocks = [reading.clock_mhz for reading in series if reading.clock_mhz is not None]
    powers = [reading.power_w for reading in series if reading.power_w is not None]
    energies = [reading.energy_j for reading in series if reading.energy_j is not None]
    return GpuReport(
        device=device,
        clock_mhz=(min(clocks), max(clocks)) if clocks else None,
        power_w=sum(powers) / len(powers) if powers else None,
        temperature_c=max((r.temperature_c for r in series if r.temperature_c is not None), default=None),
        used_bytes=max((r.used_bytes for r in series if r.used_bytes is not None), default=None),
        energy_j=energies[-1] - energies[0] if len(energies) > 1 else None,
        throttle=tuple(sorted({reason for reading in series for reason in reading.throttle})),
    )
