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

STUCK_RETRY_S = 5.0  # before a stop that left something behind is tried again
DRAIN_OVER = "its variant had to make room and the drain time was over"


class Scheduler:
    """Feed it events through ``handle``; carry out the effects; call again with ``Tick`` at ``wake_at``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._slots = {profile.id: Slot(profile) for profile in world.profiles.values()}
        self._where: dict[int, str] = {}  # ticket -> variant, while it waits or holds a lease
        self._made_room: dict[str, tuple[str, ...]] = {}  # who left for whom, until the newcomer starts
        self._closing = False
        self.wake_at: float | None = None
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
        effects = self._handlers[type(event)](event, now)
        effects.extend(self._settle(now))
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
        if slot.phase is Phase.FAILED and now < slot.retry_at and not slot.restart:
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
        slot = self._slots[event.variant]
        if slot.phase is not Phase.LOADING:
            return []  # cancelled meanwhile; its stop is under way
        slot.move(Phase.READY, now)
        slot.ready_at = slot.used_at = now
        slot.failure, slot.restart = None, False
        slot.load_s = event.load_s if event.load_s is not None else slot.load_s
        slot.held = event.held if event.held is not None else slot.held
        return []

    def _load_failed(self, event: LoadFailed, now: float) -> list[Effect]:
        slot = self._slots[event.variant]
        if slot.phase is not Phase.LOADING:
            return []
        slot.note_failure(event.failure, now)
        slot.restart = False
        return [*self._refuse_all(slot, "load_failed", event.failure, now), *turns.stop(slot, now)]

    def _died(self, event: Died, now: float) -> list[Effect]:
        slot = self._slots[event.variant]
        if slot.phase not in (Phase.READY, Phase.DRAINING):
            return []
        slot.note_failure(event.failure, now)
        self._drop_leases(slot)
        slot.restart = slot.failures <= RESTARTS and not slot.leave_after_drain and not self._closing
        effects = [] if slot.restart else self._refuse_all(slot, "load_failed", event.failure, now)
        return [*effects, *turns.stop(slot, now)]

    def _stopped(self, event: Stopped, now: float) -> list[Effect]:
        slot = self._slots[event.variant]
        if slot.phase is not Phase.STOPPING:
            return []
        if slot.stuck:
            slot.failure = None  # what was left is gone
        slot.move(Phase.FAILED if slot.failure else Phase.STOPPED, now)
        slot.stuck = slot.sleep_next = slot.leave_after_drain = False
        if slot.next_profile is not None:
            slot.profile, slot.next_profile = slot.next_profile, None
            slot.load_s = slot.held = None
        if slot.removed:
            del self._slots[slot.id]
        return []

    def _stop_failed(self, event: StopFailed, now: float) -> list[Effect]:
        slot = self._slots[event.variant]
        if slot.phase is not Phase.STOPPING:
            return []
        slot.move(Phase.FAILED, now)
        slot.stuck, slot.failure, slot.retry_at, slot.restart = True, event.failure, now + STUCK_RETRY_S, False
        return self._refuse_all(slot, "load_failed", event.failure, now)

    def _slept(self, event: Slept, now: float) -> list[Effect]:
        slot = self._slots[event.variant]
        if slot.phase is not Phase.STOPPING:
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
        if slot.phase is Phase.FAILED and not slot.stuck:
            slot.failure, slot.failures = None, 0
            slot.move(Phase.STOPPED, now)
        return self._give_up(slot, now)

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

    def _settle(self, now: float) -> list[Effect]:
        """Bring leases, turns, drains and idle unloads up to date with whatever just changed."""
        effects = self._grant(now)
        settlement = Settlement(self._world, self._slots, self._made_room, now)
        effects.extend(settlement.take_turns())
        for slot, failure in settlement.blocked:
            effects.extend(self._refuse_all(slot, "blocked", failure, now))
        effects.extend(self._drain(settlement))
        if settlement.resumed:
            effects.extend(self._grant(now))
        effects.extend(settlement.unload_idle())
        self.wake_at = settlement.wake_at
        return effects

    def _grant(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for slot in self._slots.values():
            while waiter := slot.grantable():
                slot.queue.pop(0)
                slot.leases[waiter.ticket] = waiter.exclusive
                slot.used_at = now
                effects.append(Grant(waiter.ticket, slot.id))
        return effects

    def _drain(self, settlement: Settlement) -> list[Effect]:
        """Leave where the last lease ended; take back what is overdue; side requests never wait for a swap."""
        effects: list[Effect] = []
        for slot in self._slots.values():
            if slot.phase is not Phase.DRAINING:
                continue
            effects.extend(self._refuse_side(slot))
            if settlement.overdue(slot):
                effects.extend(Revoke(ticket, slot.id, DRAIN_OVER) for ticket in slot.leases)
                self._drop_leases(slot)
            if not slot.leases:
                effects.extend(settlement.leave(slot))
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
        if profile.launch == slot.profile.launch:
            slot.profile, slot.next_profile = profile, None
            return []
        slot.failure, slot.failures, slot.retry_at = (None, 0, now) if not slot.stuck else (slot.failure, 0, now)
        if not slot.holding:
            slot.profile, slot.load_s, slot.held = profile, None, None
            if slot.phase is Phase.FAILED:
                slot.move(Phase.STOPPED, now)
            return []
        slot.next_profile = profile
        return self._give_up(slot, now, keep_waiters=True)

    def _give_up(self, slot: Slot, now: float, *, keep_waiters: bool = False) -> list[Effect]:
        """Make a slot leave for a reason that cannot be taken back: unload, removal, new launch, shutdown."""
        if slot.phase in (Phase.READY, Phase.DRAINING):
            turns.drain(slot, now)
            slot.leave_after_drain = True
            return []
        if slot.phase is Phase.LOADING:
            refused = [] if keep_waiters else self._refuse_all(slot, "draining", None, now)
            return [*refused, *turns.stop(slot, now)]
        if slot.phase is Phase.STOPPING:
            slot.leave_after_drain = True  # a falling asleep under way ends in a stop
            return []
        return turns.stop(slot, now) if slot.holding else []

    def _refuse_all(self, slot: Slot, reason: Refusal, failure: Failure | None, now: float) -> list[Effect]:
        retry_after = max(0.0, slot.retry_at - now) if failure else None
        return self._refuse(slot, list(slot.queue), reason, failure, retry_after)

    def _refuse_side(self, slot: Slot) -> list[Effect]:
        side = [waiter for waiter in slot.queue if waiter.side]
        return self._refuse(slot, side, "not_resident", None, slot.load_estimate_s)

    def _refuse(
        self, slot: Slot, waiters: list[Waiter], reason: Refusal, failure: Failure | None, retry_after_s: float | None
    ) -> list[Effect]:
        for waiter in waiters:
            slot.queue.remove(waiter)
            del self._where[waiter.ticket]
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
