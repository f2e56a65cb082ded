"""Carries out what the scheduler asks of engines: load, wake, sleep, stop; and reports back what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path

import structlog

from gearshift.advice.provenance import Running
from gearshift.control.journal import Journal
from gearshift.control.lessons import Lessons
from gearshift.control.preparation import Preparation
from gearshift.control.resident import Loaded, Resident
from gearshift.control.swaps import Departure, Loading, SwapTimer
from gearshift.domain.errors import Failure, GearshiftError, LoadFailedError, StopIncompleteError
from gearshift.domain.launch import Child, Launcher, LaunchSpec
from gearshift.domain.leasing import Upstream
from gearshift.domain.records import Sink
from gearshift.domain.settings import Settings
from gearshift.domain.variant import Variant
from gearshift.scheduler import Died, Event, LoadFailed, Phase, Ready, Slept, Slot, StopFailed, Stopped

log = structlog.get_logger(__name__)

_NOT_IN_EVENT = {"at", "failure"}  # of a swap's record: an event has its own time, and load.failed tells the cause


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What residency works with; all of it made by the composition root."""

    launcher: Launcher
    preparation: Preparation
    lessons: Lessons
    sink: Sink
    journal: Journal


@dataclass(slots=True)
class Residency:
    """Every variant's resident. ``dispatch`` takes events into the loop; ``slot`` shows the scheduler's view."""

    dependencies: Dependencies
    settings: Callable[[], Settings]
    slot: Callable[[str], Slot | None]
    dispatch: Callable[[Event], None]
    residents: dict[str, Resident] = field(default_factory=dict)
    loadings: dict[str, Loading] = field(default_factory=dict)
    log_paths: dict[str, Path] = field(default_factory=dict)  # of the newest launch
    _variants: dict[str, Variant] = field(default_factory=dict)  # as each was last started: it may leave the config
    _swaps: SwapTimer = field(default_factory=SwapTimer)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def upstream(self, variant: str) -> Upstream | None:
        resident = self.residents.get(variant)
        return resident.upstream if resident else None

    def running(self, variant: str) -> Running | None:
        """The engine that runs for it now, ready or not; None where there is none."""
        resident, slot = self.residents.get(variant), self.slot(variant)
        if resident is None or resident.child is None or resident.spec is None:
            return None
        if slot is None or slot.stuck or not slot.holding:
            return None
        pids, started = resident.child.known_pids, self._variants[variant]
        return Running(
            variant=variant,
            engine=self.dependencies.preparation.build(started),
            pid=pids[0] if pids else None,
            port=resident.spec.endpoint.port,
            sets=frozenset(started.env),
        )

    def start(self, variant: str, stopped: tuple[str, ...], *, wake: bool) -> None:
        """Load or wake it; ends in Ready or LoadFailed, and later perhaps in Died."""
        before, now = self._variants.get(variant), self.settings().variants()[variant]
        if before is not None and before.launch_digest != now.launch_digest:
            self.dependencies.lessons.forget(variant)
        self._variants[variant] = now
        resident = self.residents.get(variant) or Resident(
            self.dependencies.launcher,
            lambda port: self._spec(variant, port),
            lambda child: self._note_log(variant, child),
        )
        self.residents[variant] = resident
        self.loadings[variant] = loading = Loading(stopped, time.monotonic())
        resident.begin(self._live(variant, resident, loading, wake=wake))

    def stop(self, variant: str) -> None:
        """End it; ends in Stopped or StopFailed."""
        self._own(self._stop(variant), f"stop {variant}")

    def sleep(self, variant: str) -> None:
        """Put it to sleep; ends in Slept, or in Stopped where it would not sleep."""
        self._own(self._sleep(variant), f"sleep {variant}")

    async def close(self) -> None:
        """Forget what is under way. Every engine has been stopped before."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- one life --------------------------------------------------------------------------------------------------

    async def _live(self, variant: str, resident: Resident, loading: Loading, *, wake: bool) -> None:
        """From the effect to the engine's death; a stop ends it at any point."""
        try:
            loaded = await resident.load(wake=wake)
        except LoadFailedError as error:
            self._load_failed(variant, loading, error.failure)
            return
        except GearshiftError as error:
            self._load_failed(variant, loading, Failure(error.message, fix=error.hint))
            return
        except Exception as error:  # a fault of ours must not leave its waiters hanging
            log.exception("load broke", variant=variant)
            self._load_failed(variant, loading, Failure(f"Gearshift failed while loading it: {error!r}"))
            return
        loading.ended = time.monotonic()
        self.dispatch(
            Ready(variant, loaded.total_s if loaded.cold else None, self.dependencies.lessons.claimed(variant))
        )
        self._record(variant, loading, loaded)
        learning = self.dependencies.lessons.learn(
            self._variants[variant], resident, awake=lambda: self._serves_since(variant, loading)
        )
        self._own(learning, f"learn from {variant}")
        await self._watch(variant, resident)

    async def _watch(self, variant: str, resident: Resident) -> None:
        """From ready or asleep to its death."""
        failure = await resident.watch()
        log.error("engine died", variant=variant, cause=failure.cause)
        self.dependencies.journal.add("variant.died", variant=variant, cause=failure.cause, line=failure.line)
        self.dispatch(Died(variant, failure))

    def _load_failed(self, variant: str, loading: Loading, failure: Failure) -> None:
        loading.ended = time.monotonic()
        log.error("load failed", variant=variant, cause=failure.cause, line=failure.line)
        self.dependencies.journal.add(
            "load.failed", variant=variant, cause=failure.cause, line=failure.line, fix=failure.fix
        )
        self._record(variant, loading, None, failure.cause)
        self.dispatch(LoadFailed(variant, failure))

    async def _stop(self, variant: str) -> None:
        began, slot = time.monotonic(), self.slot(variant)
        drain_s = _drained_s(slot, began)
        resident = self.residents.get(variant)
        try:
            report = await resident.stop(self._grace_s(variant)) if resident else None
        except StopIncompleteError as error:
            log.error("stop incomplete", variant=variant, left=error.message)  # noqa: TRY400 - the message is whole
            self.dependencies.journal.add("stop.incomplete", variant=variant, left=error.message)
            self.dispatch(StopFailed(variant, Failure(error.message, fix=error.hint)))
            return
        except Exception as error:
            log.exception("stop broke", variant=variant)
            self.dispatch(StopFailed(variant, Failure(f"Gearshift failed while stopping it: {error!r}")))
            return
        self._left(Departure(variant, drain_s, began, report))
        self.dispatch(Stopped(variant))

    async def _sleep(self, variant: str) -> None:
        began, slot = time.monotonic(), self.slot(variant)
        drain_s = _drained_s(slot, began)
        resident = self.residents[variant]
        try:
            awake = await self.dependencies.lessons.held(resident)
            asking = time.monotonic()
            await resident.sleep()
            sleep_s = time.monotonic() - asking
            held = await self.dependencies.lessons.held(resident)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, it is stopped instead
            log.warning("would not sleep", variant=variant, cause=str(error))
            await self._stop(variant)
            return
        freed = sum(awake.values()) - sum(held.values()) if held and held.keys() == awake.keys() else None
        self._left(Departure(variant, drain_s, began, None, sleep_s, freed))
        modelled = slot.profile.asleep if slot else None
        resident.begin(self._watch(variant, resident))
        self.dispatch(Slept(variant, {**(modelled or {}), **held}))

    def _left(self, gone: Departure) -> None:
        self._swaps.left(gone)
        self.dependencies.journal.add(
            "variant.left", variant=gone.variant, drain_s=gone.drain_s, took_s=time.monotonic() - gone.began
        )

    def _record(self, variant: str, loading: Loading, loaded: Loaded | None, failure: str | None = None) -> None:
        record = self._swaps.arrived(variant, loading, loaded, failure)
        self.dependencies.sink.swap(record)
        facts = {name: value for name, value in asdict(record).items() if name not in _NOT_IN_EVENT}
        self.dependencies.journal.add("swap.done" if loaded else "swap.failed", **facts)

    # -- parts -----------------------------------------------------------------------------------------------------

    def _serves_since(self, variant: str, loading: Loading) -> bool:
        """Whether it has been awake ever since this load."""
        slot = self.slot(variant)
        return (
            self.loadings.get(variant) is loading and slot is not None and slot.phase in (Phase.READY, Phase.DRAINING)
        )

    def _note_log(self, variant: str, child: Child) -> None:
        self.log_paths[variant] = child.log_path

    async def _spec(self, variant: str, port: int) -> LaunchSpec:
        return await asyncio.to_thread(self.dependencies.preparation.spec, self._variants[variant], port)

    def _grace_s(self, variant: str) -> float:
        """As the configuration says now, or said when it was started, for one that has left the configuration."""
        return self.settings().variants().get(variant, self._variants[variant]).timing.stop_grace_s

    def _own(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _drained_s(slot: Slot | None, now: float) -> float:
    """How long it has been draining; 0 for one that leaves without."""
    return max(0.0, now - slot.drain_from) if slot and slot.drain_from else 0.0
