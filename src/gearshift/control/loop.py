"""The loop: the one place that feeds the scheduler and hands out what it grants.

Events come from requests, engines and time. An event is handled to its end before the next one is looked at, on the
one event loop, so no state here needs a lock, and a request on a ready variant has its lease before `request` returns.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from gearshift.advice.provenance import Running
from gearshift.control.alarm import Alarm
from gearshift.control.names import NameResolver
from gearshift.control.phases import PhaseWatch
from gearshift.control.refusals import refusal_error
from gearshift.control.residency import Dependencies, Residency
from gearshift.control.status import StatusView
from gearshift.control.tickets import HeldLease, QueueTicket, Waited
from gearshift.domain.errors import GearshiftError, UnknownIdError
from gearshift.domain.leasing import Lease, Route, Upstream, VariantStatus
from gearshift.domain.settings import Settings
from gearshift.scheduler import (
    Arrive,
    Configure,
    Died,
    Effect,
    Event,
    Grant,
    Leave,
    Phase,
    Refuse,
    Revoke,
    Scheduler,
    Shutdown,
    SleepVariant,
    Start,
    Stop,
    StopFailed,
    Stopped,
    Tick,
    Unload,
    Wake,
    World,
)

log = structlog.get_logger(__name__)

# How far a variant is from answering, for `route: auto`.
WARMTH = {Phase.READY: 0, Phase.LOADING: 1, Phase.SLEEPING: 2, Phase.FAILED: 9}
WARMTH_OTHERWISE = 3


class Control:
    """The broker of leases (`domain.leasing.Broker`), and the owner of the scheduler."""

    def __init__(self, settings: Settings, world: World, dependencies: Dependencies) -> None:
        self._settings = settings
        self._variants = settings.variants()
        self._scheduler = Scheduler(world)
        self._names = NameResolver(settings, self._warmth)
        self._residency = Residency(dependencies, lambda: self._settings, self._scheduler.slots.get, self.dispatch)
        self._numbers = itertools.count(1)
        self._tickets: dict[int, QueueTicket] = {}
        self._arrived: dict[int, float] = {}
        self._leases: dict[int, HeldLease] = {}
        self._inbox: deque[Event] = deque()
        self._handling = False
        self._alarm = Alarm(lambda: self.dispatch(Tick()))
        self._phases = PhaseWatch(self._scheduler.slots, dependencies.journal)
        self._stops: dict[str, int] = {}  # stops that ended, by variant
        self._share: Callable[[str, str], Lease] = _no_lease
        self._preloads: set[asyncio.Task[None]] = set()
        self.journal = dependencies.journal
        self._status = StatusView(self._scheduler, self._residency, dependencies.preparation)

    # -- the broker ------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self._settings

    def resolve(self, name: str | None) -> Route:
        return self._names.resolve(name)

    def request(
        self, variant: str, *, side: bool = False, exclusive: bool = False, insist: bool = False
    ) -> QueueTicket:
        """Join the queue; raises at once where there is no place to wait in.

        ``exclusive`` waits until it is alone and keeps others out; ``insist`` overrides the back-off after a failure.
        """
        number = next(self._numbers)
        ticket = QueueTicket(number, variant, leave=self._ended, progress=self._progress)
        self._tickets[number] = ticket
        self._arrived[number] = time.monotonic()
        self.dispatch(Arrive(number, variant, side=side, exclusive=exclusive, insist=insist))
        if (refusal := ticket.refusal) is not None:
            raise refusal
        return ticket

    def share(self, lease_id: str, variant: str) -> Lease:
        return self._share(lease_id, variant)

    def share_by(self, share: Callable[[str, str], Lease]) -> None:
        """Have ``share`` hand out the shares in operators' leases from now on."""
        self._share = share

    def peek(self, variant: str) -> Upstream | None:
        slot = self._scheduler.slots.get(variant)
        if slot is None or slot.phase not in (Phase.READY, Phase.DRAINING):
            return None
        return self._residency.upstream(variant)

    def statuses(self) -> Sequence[VariantStatus]:
        return self._status.rows(self._variants)

    # -- for the admin face ----------------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        return self._scheduler.world

    def phase(self, variant: str) -> Phase | None:
        """A variant's phase now; it may be another one by the time it is acted upon."""
        slot = self._scheduler.slots.get(variant)
        return slot.phase if slot else None

    def in_flight(self, variant: str) -> int:
        """How many leases are held on it now."""
        slot = self._scheduler.slots.get(variant)
        return len(slot.leases) if slot else 0

    async def unload(self, variant: str) -> Phase | None:
        """Drain and stop it; returns the phase it came to rest in."""
        seen = self._stops.get(variant, 0)
        self.dispatch(Unload(variant))
        # A request that arrives during the stop starts it again in the same breath: the stop counts, not the phase.
        resting = (Phase.STOPPED, Phase.FAILED, None)
        await self._phases.until(lambda: self._stops.get(variant, 0) > seen or self.phase(variant) in resting)
        return self.phase(variant)

    def log_path(self, variant: str) -> Path | None:
        """The log of its newest launch; None when this server never started it."""
        return self._residency.log_paths.get(variant)

    def running(self, variant: str) -> Running | None:
        """The engine that runs for it now; None where there is none."""
        return self._residency.running(variant)

    def configure(self, settings: Settings, world: World) -> None:
        """Take over a new configuration: untouched variants and their streams live on."""
        self._settings = settings
        self._variants = settings.variants()
        self._names = NameResolver(settings, self._warmth)
        self.dispatch(Configure(world))

    def preload(self, name: str) -> None:
        """Make it resident without waiting for it; a failure is told like any other."""
        task = asyncio.create_task(self._preload(name), name=f"preload {name}")
        self._preloads.add(task)
        task.add_done_callback(self._preloads.discard)

    async def close(self, *, drain_s: float) -> None:
        """Refuse what is new, let leases end for ``drain_s``, take back the rest; returns once no engine is left."""
        self.dispatch(Shutdown())
        await self._phases.until(self._at_rest, drain_s)
        self.hurry()
        await self._phases.until(self._at_rest)
        await asyncio.gather(*self._preloads, return_exceptions=True)
        self._alarm.cancel()
        await self._residency.close()
        self.journal.close()

    def hurry(self) -> None:
        """Take back every lease: what still streams is interrupted, and told so."""
        for number, lease in list(self._leases.items()):
            lease.revoke("the server is stopping")
            self._ended(number)

    # -- events in -------------------------------------------------------------------------------------------------

    def dispatch(self, event: Event) -> None:
        """Handle one event and all that follows from it at once. May be called while one is being handled."""
        self._inbox.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._inbox:
                self._handle(self._inbox.popleft())
        finally:
            self._handling = False
        self._alarm.set(self._scheduler.wake_at)
        self._phases.look(self._scheduler.slots)

    def _handle(self, event: Event) -> None:
        match event:
            case Died(variant, failure):
                self._revoke_all(variant, f"its engine died: {failure.cause}")
            case Stopped(variant) | StopFailed(variant):
                self._stops[variant] = self._stops.get(variant, 0) + 1
        for effect in self._scheduler.handle(event, time.monotonic()):
            self._perform(effect)

    # -- effects out -----------------------------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Grant(ticket, variant):
                self._grant(ticket, variant)
            case Refuse():
                self._refuse(effect)
            case Revoke(ticket, _, reason):
                self._revoke(ticket, reason)
            case Start(variant, stopped):
                self._residency.start(variant, stopped, wake=False)
            case Wake(variant, stopped):
                self._residency.start(variant, stopped, wake=True)
            case Stop(variant):
                self._residency.stop(variant)
            case SleepVariant(variant):
                self._residency.sleep(variant)

    def _grant(self, number: int, variant: str) -> None:
        ticket = self._tickets.pop(number)
        waited = self._waited(variant, self._arrived.pop(number))
        upstream = self._residency.upstream(variant)
        if upstream is None:  # unreachable while scheduler and residency agree; refusing beats a crash of the loop
            ticket.refuse(refusal_error(Refuse(number, variant, "load_failed")))
            self._inbox.append(Leave(number))
            return
        lease = HeldLease(self._variants[variant], upstream, waited, lambda: self._ended(number))
        self._leases[number] = lease
        if not ticket.grant(lease):
            lease.release()

    def _refuse(self, refusal: Refuse) -> None:
        self._arrived.pop(refusal.ticket, None)
        if ticket := self._tickets.pop(refusal.ticket, None):
            ticket.refuse(refusal_error(refusal))

    def _revoke(self, number: int, reason: str) -> None:
        if lease := self._leases.pop(number, None):
            lease.revoke(reason)

    def _revoke_all(self, variant: str, reason: str) -> None:
        for number in [number for number, lease in self._leases.items() if lease.variant.id == variant]:
            self._revoke(number, reason)

    def _ended(self, number: int) -> None:
        """A waiter left or a lease was released."""
        self._tickets.pop(number, None)
        self._arrived.pop(number, None)
        self._leases.pop(number, None)
        self.dispatch(Leave(number))

    # -- parts -----------------------------------------------------------------------------------------------------

    def _warmth(self, variant: str) -> int:
        slot = self._scheduler.slots.get(variant)
        return WARMTH.get(slot.phase, WARMTH_OTHERWISE) if slot else WARMTH_OTHERWISE

    async def _preload(self, name: str) -> None:
        try:
            ticket = self.request(self.resolve(name).variant.id)
            lease = await ticket.wait()
        except GearshiftError as error:
            log.warning("preload failed", variant=name, cause=error.message)
            return
        if lease is not None:
            lease.release()

    def _waited(self, variant: str, arrived: float) -> Waited:
        """Split a wait into its queue and its load."""
        now = time.monotonic()
        loading = self._residency.loadings.get(variant)
        load_s = 0.0
        if loading is not None:
            load_s = max(0.0, (loading.ended or now) - max(arrived, loading.began))
        return Waited(max(0.0, now - arrived - load_s), load_s)

    def _progress(self, number: int, variant: str) -> str:
        return self._status.progress(variant, self._scheduler.ahead(number))

    def _at_rest(self) -> bool:
        return not any(slot.holding and not slot.stuck for slot in self._scheduler.slots.values())


def _no_lease(lease_id: str, _variant: str) -> Lease:
    raise UnknownIdError(f"there is no lease {lease_id!r}")
