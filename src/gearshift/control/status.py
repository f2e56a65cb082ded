"""What `ps` and the keep-alive lines show: scheduler, residents and plans put side by side. Reading only."""

from __future__ import annotations

import time
from collections.abc import Mapping

from gearshift.control.preparation import Preparation
from gearshift.control.residency import Residency
from gearshift.control.resident import Resident
from gearshift.domain.leasing import VariantStatus
from gearshift.domain.startup import StartReport
from gearshift.domain.variant import Variant
from gearshift.scheduler import Phase, Scheduler, Slot


class StatusView:
    """Rows in file order. Every figure that is not known is None."""

    def __init__(self, scheduler: Scheduler, residency: Residency, preparation: Preparation) -> None:
        self._scheduler = scheduler
        self._residency = residency
        self._preparation = preparation

    def rows(self, variants: Mapping[str, Variant]) -> list[VariantStatus]:
        slots = self._scheduler.slots
        return [self._row(variants[variant], slot) for variant, slot in slots.items() if variant in variants]

    def progress(self, variant: str, ahead: int | None) -> str:
        """One line for a waiter: its place, and what the engine is doing."""
        slot = self._scheduler.slots.get(variant)
        if slot is None:
            return "leaving"
        place = f"queued, {ahead} ahead; " if ahead else "queued; "
        return place + self._doing(slot)

    def _doing(self, slot: Slot) -> str:
        match slot.phase:
            case Phase.LOADING:
                return self._stage(slot) or "loading"
            case Phase.READY:
                return "every slot of the engine is busy"
            case Phase.DRAINING | Phase.STOPPING:
                return f"{slot.phase} to restart"
            case _:
                holders = [other for other in self._scheduler.slots.values() if other is not slot and other.holding]
                return "; ".join(_staying(other) for other in holders) or "about to load"

    def _row(self, variant: Variant, slot: Slot) -> VariantStatus:
        resident = self._residency.residents.get(slot.id)
        child = resident.child if resident and slot.holding else None
        plan = self._preparation.plan(slot.id)
        planned = plan.bytes_by_device if plan else None
        measured = self._residency.dependencies.lessons.measured(slot.id) if child else None
        return VariantStatus(
            variant=slot.id,
            engine=variant.engine.kind,
            engine_version=self._preparation.version(variant),
            state=slot.phase.value,
            pids=child.known_pids if child else (),
            port=resident.spec.endpoint.port if child and resident and resident.spec else None,
            gpus=tuple(sorted(slot.profile.devices)),
            planned_bytes=sum(planned.values()) if planned else None,
            measured_bytes=sum(measured.values()) if measured else None,
            context=self._context(variant, resident),
            in_flight=len(slot.leases),
            queued=len(slot.queue),
            stage=self._stage(slot) if slot.phase is Phase.LOADING else None,
            since_s=time.monotonic() - slot.since if slot.since else None,
            unload_in_s=_unload_in(slot),
            failure=slot.failure,
        )

    def _context(self, variant: Variant, resident: Resident | None) -> int | None:
        report = self._report(resident)
        return (report.figures.context if report else None) or variant.context

    def _stage(self, slot: Slot) -> str | None:
        report = self._report(self._residency.residents.get(slot.id))
        if report is None:
            return None
        return f"{report.stage} {report.progress:.0%}" if report.progress is not None else report.stage

    def _report(self, resident: Resident | None) -> StartReport | None:
        return resident.child.report if resident and resident.child else None


def _staying(slot: Slot) -> str:
    """What keeps a variant in its place, in a waiter's words."""
    match slot.phase:
        case Phase.READY if (rest := slot.ready_at + slot.profile.min_resident_s - time.monotonic()) > 0:
            return f"{slot.id} was just loaded and stays {rest:.0f} s more"
        case Phase.READY | Phase.DRAINING:
            count = len(slot.leases)
            return f"{slot.id} is answering {count} request{'' if count == 1 else 's'}"
        case Phase.FAILED:
            return f"{slot.id} has left something behind"
        case phase:
            return f"{slot.id} is {phase}"


def _unload_in(slot: Slot) -> float | None:
    if slot.phase is not Phase.READY or not slot.idle or slot.profile.unload_after_s is None:
        return None
    return max(0.0, slot.used_at + slot.profile.unload_after_s - time.monotonic())
