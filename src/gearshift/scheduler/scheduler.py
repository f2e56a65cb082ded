"""The reducer: one event in, effects out. It owns every slot, has no clock and touches nothing outside itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from gearshift.domain.errors import Failure
from gearshift.scheduler import turns
from gearshift.scheduler.events import (
    Arrive,
    Configure,
    Died,
    Effect,
    Event,
    Grant,
    Leave,
    LoadFailed,
    Ready,
    Refusal,
    Refuse,
    Revoke,
    Shutdown,
    Slept,
    StopFailed,
    Stopped,
    Tick,
    Unload,
)
from gearshift.scheduler.profile import Profile, World
from gearshift.scheduler.slot import RESTARTS, Phase, Slot, Waiter
from gearshift.scheduler.turns import Settlement

DRAIN_OVER = "its variant had to make room, and drain_timeout has passed"


class Scheduler:
    """Feed it events through ``handle``; carry out the effects; call again with ``Tick`` at ``wake_at``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._slots = {profile.id: Slot(profile) for profile in world.profiles.values()}
        self._where: dict[int, str] = {}  # ticket -> variant, while it waits or holds a lease
        self._made_room: dict[str, tuple[str, ...]] = {}  # newcomer -> those that left for it, until it starts
        self._closing = False
        self._calm = True  # nobody waits for a turn, so a lease that comes or goes changes nothing but its own slot
        self.wake_at: float | None = None
        # Any, because each handler takes the one event it stands under; `handle` looks it up by that event's type.
        self._handlers: Mapping[type[Any], Callable[[Any, float], list[Effect]]] = {
            Arrive: self._arrive,
            Leave: self._leave,
            Ready: self._ready,
            LoadFailed: self._load_failed,
            Died: self._died,
            Stopped: self._stopped,
            StopFailed: self._stop_failed,
            Slept: self._slept,
            Unload: self._unload,
            Configure: self._configure,
            Shutdown: self._shutdown,
            Tick: self._tick,
        }

    @property
    def slots(self) -> Mapping[str, Slot]:
        """For reading only: a stale read may inform, never gate a mutation."""
        return self._slots

    @property
    def world(self) -> World:
        return self._world

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event at time ``now`` (seconds, any monotonic origin) and say what has to be done for it."""
        effects = self._catch_up(event, now)
        served = self._served_by(event)
        effects.extend(self._handlers[type(event)](event, now))
        effects.extend(self._serve(served, now) if served is not None else self._settle(now))
        return effects

    def ahead(self, ticket: int) -> int | None:
        """How many waiters stand before this one in its queue; None when it does not wait."""
        slot = self._slots.get(self._where.get(ticket, ""))
        if slot is None:
            return None
        return next((place for place, waiter in enumerate(slot.queue) if waiter.ticket == ticket), None)

    # -- events ----------------------------------------------------------------------------------------------------

    def _arrive(self, event: Arrive, now: float) -> list[Effect]:
        slot = self._slots.get(event.variant)
        if slot is None or slot.removed or self._closing:
            return [Refuse(event.ticket, event.variant, "draining")]
        if event.side and slot.phase not in (Phase.READY, Phase.LOADING):
            return [Refuse(event.ticket, slot.id, "not_resident", retry_after_s=slot.load_estimate_s)]
        if event.insist:
            slot.retry_at, slot.failures = now, 0
        if slot.backing_off(now):
            return [Refuse(event.ticket, slot.id, "load_failed", slot.failure, slot.retry_at - now)]
        if len(slot.queue) >= slot.profile.queue_limit and not event.insist:
            return [Refuse(event.ticket, slot.id, "queue_full", retry_after_s=self._patience(slot, now))]
        slot.queue.append(Waiter(event.ticket, now, event.side, event.exclusive))
        self._where[event.ticket] = slot.id
        return []

    def _leave(self, event: Leave, now: float) -> list[Effect]:
        slot = self._slots.get(self._where.pop(event.ticket, ""))
        if slot is None:
            return []  # refused, revoked, or its engine died: already over
        if event.ticket in slot.leases:
            del slot.leases[event.ticket]
            slot.used_at = now
        else:
            slot.queue = [waiter for waiter in slot.queue if waiter.ticket != event.ticket]
        return []

    def _ready(self, event: Ready, now: float) -> list[Effect]:
        if (slot := self._found(event.variant, Phase.LOADING)) is None:
            return []  # cancelled meanwhile; its stop is under way
        slot.move(Phase.READY, now)
        slot.ready_at = slot.used_at = now
        slot.failure, slot.restart = None, False
        slot.load_s = event.load_s if event.load_s is not None else slot.load_s
        slot.held = event.held if event.held is not None else slot.held
        return []

    def _load_failed(self, event: LoadFailed, now: float) -> list[Effect]:
        if (slot := self._found(event.variant, Phase.LOADING)) is None:
            return []
        slot.note_failure(event.failure, now)
        slot.restart = False
        return [*self._refuse_all(slot, "load_failed", event.failure, now), *turns.stop(slot, now)]

    def _died(self, event: Died, now: float) -> list[Effect]:
        if (slot := self._found(event.variant, Phase.SLEEPING)) is not None:
            return turns.stop(slot, now)  # nobody was served by it: it is cleared away, and the next start is cold
        if (slot := self._found(event.variant, Phase.READY, Phase.DRAINING)) is None:
            return []
        if not slot.leave_after_drain:  # one that was leaving for good has left: its next start is not held back
            slot.note_failure(event.failure, now)
        self._drop_leases(slot)
        given_up = slot.failures > RESTARTS and slot.next_profile is None
        slot.restart = (slot.restart or slot.phase is Phase.READY) and not given_up
        effects = self._refuse_all(slot, "load_failed", event.failure, now) if given_up else []
        return [*effects, *turns.stop(slot, now)]

    def _stopped(self, event: Stopped, now: float) -> list[Effect]:
        if (slot := self._found(event.variant, Phase.STOPPING)) is None:
            return []
        slot.end_life()
        slot.move(Phase.FAILED if slot.failure else Phase.STOPPED, now)
        if slot.removed:
            del self._slots[slot.id]
        return []

    def _stop_failed(self, event: StopFailed, now: float) -> list[Effect]:
        if (slot := self._found(event.variant, Phase.STOPPING)) is None:
            return []
        slot.move(Phase.FAILED, now)
        slot.note_stuck(event.failure, now)
        slot.restart = slot.sleep_next = False
        return self._refuse_all(slot, "load_failed", event.failure, now)

    def _slept(self, event: Slept, now: float) -> list[Effect]:
        if (slot := self._found(event.variant, Phase.STOPPING)) is None:
            return []
        slot.sleep_next = False
        slot.move(Phase.SLEEPING, now)
        slot.held_asleep = event.held
        return turns.stop(slot, now) if slot.leave_after_drain else []

    def _unload(self, event: Unload, now: float) -> list[Effect]:
        slot = self._slots.get(event.variant)
        if slot is None:
            return []
        slot.restart = False
        effects = self._refuse_all(slot, "draining", None, now)  # else they would load it again at once
        if not slot.stuck:  # also while the stop of one that died is under way: it then ends as stopped
            slot.failure, slot.failures = None, 0
            if slot.phase is Phase.FAILED:
                slot.move(Phase.STOPPED, now)
        return [*effects, *self._give_up(slot, now)]

    def _configure(self, event: Configure, now: float) -> list[Effect]:
        self._world = event.world
        effects: list[Effect] = []
        for slot in list(self._slots.values()):
            effects.extend(self._adopt(slot, event.world.profiles.get(slot.id), now))
        for profile in event.world.profiles.values():
            self._slots.setdefault(profile.id, Slot(profile, since=now))
        # File order decides ties and the order of `ps`.
        order = {variant: place for place, variant in enumerate(event.world.profiles)}
        self._slots = dict(sorted(self._slots.items(), key=lambda item: order.get(item[0], len(order))))
        return effects

    def _shutdown(self, _event: Shutdown, now: float) -> list[Effect]:
        self._closing = True
        effects: list[Effect] = []
        for slot in self._slots.values():
            slot.restart = False
            effects.extend(self._refuse_all(slot, "draining", None, now))
            effects.extend(self._give_up(slot, now))
        return effects

    def _tick(self, _event: Tick, _now: float) -> list[Effect]:
        return []

    # -- after every event -----------------------------------------------------------------------------------------

    def _catch_up(self, event: Event, now: float) -> list[Effect]:
        """Do what time made due before a request's late event: it must not slip in a lease after a drain was due."""
        if self.wake_at is None or self.wake_at > now or not isinstance(event, Arrive | Leave):
            return []
        # A request that is leaving has gone already: nobody is there to be told of a grant or a refusal.
        return [effect for effect in self._settle(now) if not _is_for(effect, event.ticket)]

    def _served_by(self, event: Event) -> Slot | None:
        """The only slot that this event can change: a lease comes or goes while all is calm. None for other events."""
        if not self._calm:
            return None
        if isinstance(event, Arrive):
            slot = self._slots.get(event.variant)
        else:
            slot = self._slots.get(self._where.get(event.ticket, "")) if isinstance(event, Leave) else None
        return slot if slot is not None and slot.phase in (Phase.READY, Phase.LOADING) else None

    def _serve(self, slot: Slot, now: float) -> list[Effect]:
        """The hot path: what `_settle` would do where nobody waits for a turn, without a look at the other slots."""
        effects = self._grant(slot, now)
        patience = slot.profile.unload_after_s
        if slot.phase is Phase.READY and slot.idle and patience is not None:
            unload_at = slot.used_at + patience
            if unload_at <= now:
                return [*effects, *self._settle(now)]
            self.wake_at = unload_at if self.wake_at is None else min(self.wake_at, unload_at)
        return effects

    def _settle(self, now: float) -> list[Effect]:
        """Bring leases, turns, drains and idle unloads up to date with whatever just changed."""
        effects = self._grant_all(now)  # first: a variant just ready serves somebody before it can be told to drain
        settlement = Settlement(self._world, self._slots, self._made_room, now)
        if not self._closing:  # its last stop was tried by the shutdown
            effects.extend(settlement.retry_stuck())
        effects.extend(settlement.unload_idle())
        effects.extend(settlement.take_turns())
        for blocked in settlement.blocked:
            retry_after = max(0.0, blocked.until - now) if blocked.until is not None else None
            effects.extend(self._refuse(blocked.slot, blocked.slot.queue, "blocked", blocked.failure, retry_after))
        effects.extend(self._drain(settlement))
        effects.extend(self._refuse_stranded())
        if settlement.resumed:
            effects.extend(self._grant_all(now))
            effects.extend(settlement.unload_idle())
        self.wake_at = settlement.wake_at
        self._calm = all(slot.calm for slot in self._slots.values())
        return effects

    def _grant_all(self, now: float) -> list[Effect]:
        return [effect for slot in self._slots.values() if slot.queue for effect in self._grant(slot, now)]

    def _grant(self, slot: Slot, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while waiter := slot.grantable():
            slot.queue.pop(0)
            slot.leases[waiter.ticket] = waiter.exclusive
            slot.used_at = now
            effects.append(Grant(waiter.ticket, slot.id))
        return effects

    def _drain(self, settlement: Settlement) -> list[Effect]:
        """Leave where the last lease ended; take back what is overdue."""
        effects: list[Effect] = []
        for slot in self._slots.values():
            if slot.phase is not Phase.DRAINING:
                continue
            if settlement.overdue(slot):
                effects.extend(Revoke(ticket, slot.id, DRAIN_OVER) for ticket in slot.leases)
                self._drop_leases(slot)
            if not slot.leases:
                effects.extend(settlement.leave(slot))
        return effects

    def _refuse_stranded(self) -> list[Effect]:
        """Side requests never cause a swap, so they do not wait where one would have to come first."""
        effects: list[Effect] = []
        for slot in self._slots.values():
            coming = slot.phase in (Phase.READY, Phase.LOADING) or (slot.restart and slot.phase is not Phase.DRAINING)
            if slot.queue and not coming:
                side = [waiter for waiter in slot.queue if waiter.side]
                effects.extend(self._refuse(slot, side, "not_resident", None, slot.load_estimate_s))
        return effects

    # -- parts -----------------------------------------------------------------------------------------------------

    def _adopt(self, slot: Slot, profile: Profile | None, now: float) -> list[Effect]:
        """Put a slot under its new profile: in place, after a restart, or not at all any more."""
        if profile is None:
            slot.removed, slot.next_profile, slot.restart = True, None, False
            effects = [*self._refuse_all(slot, "draining", None, now), *self._give_up(slot, now)]
            if not slot.holding:
                del self._slots[slot.id]
            return effects
        slot.removed = False
        if profile.starts_like(slot.profile):
            slot.profile, slot.next_profile = profile, None
            return []
        if not slot.holding:
            slot.take_profile(profile)
            if slot.phase is Phase.FAILED:
                slot.move(Phase.STOPPED, now)
            return []
        slot.next_profile, slot.retry_at = profile, now
        slot.restart = slot.restart or slot.phase in (Phase.READY, Phase.LOADING)
        return self._give_up(slot, now)

    def _found(self, variant: str, *phases: Phase) -> Slot | None:
        """The slot an engine's event speaks of; None when the event is of an earlier life and means nothing now."""
        slot = self._slots.get(variant)
        return slot if slot is not None and slot.phase in phases else None

    def _give_up(self, slot: Slot, now: float) -> list[Effect]:
        """Make a slot leave for a reason that cannot be taken back: unload, removal, new launch, shutdown."""
        if slot.phase in (Phase.READY, Phase.DRAINING):
            turns.drain(slot, now)
            slot.leave_after_drain = True
            return []
        if slot.phase is Phase.STOPPING:
            slot.leave_after_drain = True  # a falling asleep under way ends in a stop
            return []
        return turns.stop(slot, now) if slot.holding else []

    def _refuse_all(self, slot: Slot, reason: Refusal, failure: Failure | None, now: float) -> list[Effect]:
        retry_after = max(0.0, slot.retry_at - now) if failure else None
        return self._refuse(slot, slot.queue, reason, failure, retry_after)

    def _refuse(
        self, slot: Slot, waiters: list[Waiter], reason: Refusal, failure: Failure | None, retry_after_s: float | None
    ) -> list[Effect]:
        refused = {waiter.ticket for waiter in waiters}
        slot.queue = [waiter for waiter in slot.queue if waiter.ticket not in refused]
        for ticket in refused:
            del self._where[ticket]
        return [Refuse(waiter.ticket, slot.id, reason, failure, retry_after_s) for waiter in waiters]

    def _drop_leases(self, slot: Slot) -> None:
        for ticket in slot.leases:
            del self._where[ticket]
        slot.leases.clear()

    def _patience(self, slot: Slot, now: float) -> float:
        """Seconds after which a place in a full queue is likely: the rest of a load, else a whole one."""
        if slot.phase is Phase.READY:
            return 1.0
        started = slot.since if slot.phase is Phase.LOADING else now
        return max(1.0, math.ceil(started + slot.load_estimate_s - now))


def _is_for(effect: Effect, ticket: int) -> bool:
    return isinstance(effect, Grant | Refuse | Revoke) and effect.ticket == ticket
