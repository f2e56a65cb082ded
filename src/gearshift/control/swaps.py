"""Where the time of a swap went: one record per load, from the first stop made for it to ready."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from gearshift.control.resident import Loaded
from gearshift.domain.launch import StopReport
from gearshift.domain.records import SwapRecord


@dataclass(frozen=True, slots=True)
class Departure:
    """One variant that left: how long it drained, when its stop or sleep began (monotonic) and what that saw."""

    variant: str
    drain_s: float
    began: float
    report: StopReport | None
    sleep_s: float | None = None  # None = it was stopped
    freed_bytes: int | None = None  # by falling asleep; None = not measured


class SwapLedger:
    """Remembers departures until the variant they made room for is ready."""

    def __init__(self) -> None:
        self._departures: dict[str, Departure] = {}

    def left(self, departure: Departure) -> None:
        self._departures[departure.variant] = departure

    def arrived(
        self, variant: str, stopped: tuple[str, ...], began: float, loaded: Loaded | None, failure: str | None = None
    ) -> SwapRecord:
        """The record of a load that began at monotonic ``began`` and has just ended."""
        gone = [departure for name in stopped if (departure := self._departures.pop(name, None))]
        start = min([began, *(departure.began for departure in gone)])
        total = time.monotonic() - start
        reports = [departure.report for departure in gone if departure.report]
        asleep = [departure for departure in gone if departure.sleep_s is not None]
        sleep_s = max((departure.sleep_s for departure in asleep if departure.sleep_s is not None), default=None)
        ready = loaded.ready if loaded else None
        # Several leave at the same time: the one whose memory came back last is what the newcomer waited for.
        last = max(reports, key=lambda report: report.memory_back_s, default=None)
        stop_s = last.exit_s if last else 0.0
        memory_s = last.memory_back_s - last.exit_s if last else 0.0
        # What the spawn itself took (our keeper's start) is ours, not the engine's.
        load_s = ready.health_s - ready.spawn_s if ready else 0.0
        probe_s = ready.probe_s if ready else 0.0
        wake_s = loaded.total_s if loaded and not loaded.cold else None
        left_s = max(stop_s + memory_s, sleep_s or 0.0)  # at the same time, where some stop and some sleep
        return SwapRecord(
            at=time.time(),
            variant=variant,
            stopped=stopped,
            drain_s=max((departure.drain_s for departure in gone), default=0.0),
            stop_s=stop_s,
            memory_s=memory_s,
            load_s=load_s,
            probe_s=probe_s,
            overhead_s=total - left_s - load_s - probe_s - (wake_s or 0.0) if loaded else 0.0,
            total_s=total,
            cold=loaded.cold if loaded else True,
            failure=failure,
            slept=tuple(departure.variant for departure in asleep),
            sleep_s=sleep_s,
            wake_s=wake_s,
            freed_bytes=_freed(asleep),
        )


def _freed(asleep: Sequence[Departure]) -> int | None:
    """What they gave back together; None where one of them was not measured."""
    known = [departure.freed_bytes for departure in asleep if departure.freed_bytes is not None]
    return sum(known) if asleep and len(known) == len(asleep) else None
