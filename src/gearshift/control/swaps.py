"""Where the time of a swap went: one record per load, from the first stop made for it to ready."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gearshift.control.resident import Loaded
from gearshift.domain.launch import StopReport
from gearshift.domain.records import SwapRecord


@dataclass(slots=True)
class Loading:
    """A variant's present or last load: who was made to leave for it, and when it began and ended (monotonic)."""

    stopped: tuple[str, ...]
    began: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """One variant that left: how long it drained, when its stop or sleep began (monotonic) and what that saw."""

    variant: str
    drain_s: float
    began: float
    report: StopReport | None
    sleep_s: float | None = None  # None = it was stopped
    freed_bytes: int | None = None  # by falling asleep; None = not measured


class Clearance:
    """What it took to make room, by all that left for one load. They leave side by side, so the slowest counts."""

    def __init__(self, departures: list[Departure]) -> None:
        self._asleep = [departure for departure in departures if departure.sleep_s is not None]
        self.began = min((departure.began for departure in departures), default=float("inf"))
        self.drain_s = max((departure.drain_s for departure in departures), default=0.0)
        self.sleep_s = max((one.sleep_s for one in self._asleep if one.sleep_s is not None), default=None)
        # The one whose memory came back last is what the newcomer waited for.
        reports = [departure.report for departure in departures if departure.report]
        last = max(reports, key=lambda report: report.memory_back_s, default=None)
        self.stop_s = last.exit_s if last else 0.0
        self.memory_s = last.memory_back_s - last.exit_s if last else 0.0

    @property
    def took_s(self) -> float:
        """The engines' own part of leaving, drains apart; stops and sleeps go side by side as well."""
        return max(self.stop_s + self.memory_s, self.sleep_s or 0.0)

    @property
    def slept(self) -> tuple[str, ...]:
        return tuple(departure.variant for departure in self._asleep)

    @property
    def freed_bytes(self) -> int | None:
        """What those that fell asleep gave back together; None where one of them was not measured."""
        known = [departure.freed_bytes for departure in self._asleep if departure.freed_bytes is not None]
        return sum(known) if self._asleep and len(known) == len(self._asleep) else None


class SwapTimer:
    """Remembers departures until the variant they made room for is ready, and says where the time went."""

    def __init__(self) -> None:
        self._departures: dict[str, Departure] = {}

    def left(self, departure: Departure) -> None:
        self._departures[departure.variant] = departure

    def arrived(self, variant: str, loading: Loading, loaded: Loaded | None, failure: str | None = None) -> SwapRecord:
        """The record of a load that has just ended; ``loaded`` None: it failed."""
        gone = Clearance([left for name in loading.stopped if (left := self._departures.pop(name, None))])
        total_s = time.monotonic() - min(loading.began, gone.began)
        ready = loaded.ready if loaded else None
        # What the spawn itself took (our keeper's start) is ours, not the engine's.
        load_s = ready.health_s - ready.spawn_s if ready else 0.0
        probe_s = ready.probe_s if ready else 0.0
        wake_s = loaded.total_s if loaded and not loaded.cold else None
        return SwapRecord(
            at=time.time(),
            variant=variant,
            stopped=loading.stopped,
            drain_s=gone.drain_s,
            stop_s=gone.stop_s,
            memory_s=gone.memory_s,
            load_s=load_s,
            probe_s=probe_s,
            overhead_s=total_s - gone.took_s - load_s - probe_s - (wake_s or 0.0) if loaded else 0.0,
            total_s=total_s,
            cold=loaded.cold if loaded else True,
            failure=failure,
            slept=gone.slept,
            sleep_s=gone.sleep_s,
            wake_s=wake_s,
            freed_bytes=gone.freed_bytes,
        )
