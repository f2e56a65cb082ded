"""What a start teaches, off the swap's path: the memory it really holds, and how far its plan was from that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from gearshift.advice.calibrations import Calibrations
from gearshift.control.journal import Journal
from gearshift.control.preparation import Preparation
from gearshift.control.resident import Resident
from gearshift.domain.device import CPU_DEVICE, DeviceMemory
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import Variant
from gearshift.planner import calibration_of, differences

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Lessons:
    """Bytes measured, by variant id and device, and the calibrations made of them."""

    memory: DeviceMemory
    preparation: Preparation
    calibrations: Calibrations
    journal: Journal
    _measured: dict[str, Mapping[str, int]] = field(default_factory=dict)

    def measured(self, variant: str) -> Mapping[str, int] | None:
        """What its last start was seen to hold; None = not measured."""
        return self._measured.get(variant)

    def claimed(self, variant: str) -> Mapping[str, int] | None:
        """What has to be kept free for it: what was measured, on a CPU no less than planned; None = not measured.

        A CPU engine touches its KV buffer as it fills: what it holds when ready is less than what it will need.
        """
        held, plan = self._measured.get(variant), self.preparation.plan(variant)
        if held is None or CPU_DEVICE not in held or plan is None or plan.bytes_by_device is None:
            return held
        return {**held, CPU_DEVICE: max(held[CPU_DEVICE], plan.bytes_by_device.get(CPU_DEVICE, 0))}

    def forget(self, variant: str) -> None:
        """What another launch held says nothing of the next one."""
        self._measured.pop(variant, None)

    async def learn(self, variant: Variant, resident: Resident, *, awake: Callable[[], bool]) -> None:
        """Measure a ready engine, pass on what it warned of, and compare it with its plan.

        A reading that ends when the engine is no longer ``awake`` may be of one asleep: it counts as not measured.
        """
        try:
            held = await self.held(resident)
        except GearshiftError as error:
            log.warning("memory not measured", variant=variant.id, cause=error.message)
            return
        if not awake():
            held = {}
        if held:
            self._measured[variant.id] = held
        self._pass_on_notices(variant.id, resident)
        await self._compare(variant, resident, held)

    async def held(self, resident: Resident) -> dict[str, int]:
        """Bytes its processes hold, by device; a device that does not tell is left out. Raises GearshiftError."""
        devices, child = resident.spec.devices if resident.spec else (), resident.child
        pids = await asyncio.to_thread(lambda: child.pids) if child else ()
        readings = await asyncio.to_thread(self.memory.read, devices, pids)
        # A driver that lists none of our processes (another pid namespace, WSL) says nothing: unknown is not zero.
        return {
            device: sum(count for pid, count in reading.by_pid.items() if pid in pids)
            for device, reading in readings.items()
            if not reading.by_pid.keys().isdisjoint(pids)
        }

    def _pass_on_notices(self, variant: str, resident: Resident) -> None:
        for notice in resident.child.report.notices if resident.child else ():
            log.warning("engine notice", variant=variant, line=notice)
            self.journal.add("engine.notice", variant=variant, line=notice)

    async def _compare(self, variant: Variant, resident: Resident, held: Mapping[str, int]) -> None:
        plan, child = self.preparation.plan(variant.id), resident.child
        if plan is None or child is None:
            return
        figures = child.report.figures
        compared = {one.name: {"planned": one.planned, "logged": one.logged} for one in differences(plan, figures)}
        self.journal.add("plan.compared", variant=variant.id, figures=compared, held=dict(held))
        learned = replace(calibration_of(plan, figures), totals=held)
        await asyncio.to_thread(self.calibrations.keep, self.preparation.start_key(variant), learned)
