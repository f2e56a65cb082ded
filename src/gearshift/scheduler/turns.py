"""Whose turn it is: who may start now, who has to make room for it and when, who has been idle long enough.

A `Settlement` looks at all slots once, oldest waiter first. What an older waiter needs is claimed, so that a younger
one may overtake it only where it takes nothing from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from gearshift.domain.errors import Failure
from gearshift.scheduler.events import Effect, SleepVariant, Start, Stop, Wake
from gearshift.scheduler.fit import Tenant, victims
from gearshift.scheduler.profile import World
from gearshift.scheduler.slot import Phase, Slot

RESTING = frozenset({Phase.STOPPED, Phase.SLEEPING, Phase.FAILED})

# The order in which tenants are given up: those already leaving first, busy ones last.
_GIVE_UP = {Phase.STOPPING: 0, Phase.DRAINING: 1, Phase.FAILED: 2, Phase.SLEEPING: 3, Phase.LOADING: 4, Phase.READY: 5}


def stop(slot: Slot, now: float) -> list[Effect]:
    """Stop it now, whatever it was doing."""
    slot.move(Phase.STOPPING, now)
    slot.sleep_next = False
    return [Stop(slot.id)]


def drain(slot: Slot, now: float) -> None:
    """Take no new leases from now on."""
    if slot.phase is Phase.READY:
        slot.move(Phase.DRAINING, now)
        slot.drain_from = now


class Settlement:
    """One look at every slot at one moment."""

    def __init__(
        self, world: World, slots: Mapping[str, Slot], made_room: dict[str, tuple[str, ...]], now: float
    ) -> None:
        self._world = world
        self._slots = slots
        self._made_room = made_room
        self._now = now
        self._unwanted: set[str] = set()  # whose place somebody waits for
        self.blocked: list[tuple[Slot, Failure]] = []  # waiters that can only be refused
        self.resumed = False  # a drain was taken back, so leases can be granted again
        self.wake_at: float | None = None

    def take_turns(self) -> list[Effect]:
        """Start whoever fits, make room for whoever's time has come, take back drains nobody needs any more."""
        effects: list[Effect] = []
        claims: list[Tenant] = []
        for slot in self._waiting():
            effects.extend(self._turn(slot, claims))
        self._forget_left()
        self._resume_unneeded()
        return effects

    def unload_idle(self) -> list[Effect]:
        """Let go of what nobody used for its idle time."""
        effects: list[Effect] = []
        for slot in self._slots.values():
            patience = slot.profile.unload_after_s
            if slot.phase is not Phase.READY or not slot.idle or patience is None:
                continue
            if self._due(slot.used_at + patience):
                effects.extend(self.leave(slot))
        return effects

    def leave(self, slot: Slot) -> list[Effect]:
        """Put it to sleep where it can and may, else stop it."""
        if slot.leave_after_drain or not self._may_sleep(slot):
            return stop(slot, self._now)
        slot.move(Phase.STOPPING, self._now)
        slot.sleep_next = True
        return [SleepVariant(slot.id)]

    def overdue(self, slot: Slot) -> bool:
        """Whether a draining slot's leases have had their drain time."""
        limit = slot.profile.drain_timeout_s
        return limit is not None and bool(slot.leases) and self._due(slot.drain_from + limit)

    # -- one turn --------------------------------------------------------------------------------------------------

    def _waiting(self) -> list[Slot]:
        ready = [slot for slot in self._slots.values() if slot.phase in RESTING and not slot.stuck]
        wanted = [slot for slot in ready if slot.wanting or slot.restart]
        due = [slot for slot in wanted if slot.failure is None or self._due(slot.retry_at)]
        return sorted(due, key=self._asked_at)

    def _asked_at(self, slot: Slot) -> float:
        waiter = slot.wanting
        return waiter.arrived if waiter else float("inf")  # a restart nobody waits for yields to every waiter

    def _turn(self, slot: Slot, claims: list[Tenant]) -> list[Effect]:
        newcomer = self._tenant(slot)
        claimed = {claim.id for claim in claims}
        verdict = victims(self._world, newcomer, [*self._residents(slot), *claims])
        if verdict.blocked_by:
            self._block(slot, verdict.blocked_by)
            return []
        if claimed & set(verdict.victims):
            return []  # an older waiter needs that place
        claims.append(newcomer)
        leaving = [self._slots[variant] for variant in verdict.victims]
        if not leaving:
            return [self._start(slot)]
        stuck = [victim for victim in leaving if victim.stuck and not self._due(victim.retry_at)]
        if stuck:
            self._block(slot, tuple(victim.id for victim in stuck))
            return []
        self._unwanted.update(verdict.victims)
        return self._make_room(slot, leaving)

    def _start(self, slot: Slot) -> Effect:
        wake = slot.phase is Phase.SLEEPING
        slot.move(Phase.LOADING, self._now)
        stopped = self._made_room.pop(slot.id, ())
        return Wake(slot.id, stopped) if wake else Start(slot.id, stopped)

    def _make_room(self, slot: Slot, leaving: list[Slot]) -> list[Effect]:
        """All leave together, or none before its time: stopping one early would cost it and gain nothing."""
        if slot.wanting is None and any(not victim.idle for victim in leaving):
            return []  # a restart nobody waits for takes nobody's place
        waits = [self._evictable_at(victim, slot) for victim in leaving]
        latest = max(waits)
        if latest == float("inf") or not self._due(latest):
            return []
        known = self._made_room.get(slot.id, ())
        self._made_room[slot.id] = (*known, *(victim.id for victim in leaving if victim.id not in known))
        effects: list[Effect] = []
        for victim in leaving:
            effects.extend(self._evict(victim))
        return effects

    def _evictable_at(self, victim: Slot, newcomer: Slot) -> float:
        """The time from which ``victim`` may be made to leave; now or earlier = at once, infinity = after an event."""
        if victim.phase is Phase.LOADING:
            return float("inf") if victim.queue else self._now  # a load nobody waits for is cancelled
        if victim.phase is not Phase.READY:
            return self._now
        settled = victim.ready_at + victim.profile.min_resident_s
        if victim.idle or newcomer.wanting is None:
            return settled
        return max(settled, newcomer.wanting.arrived + newcomer.profile.max_wait_s)

    def _evict(self, victim: Slot) -> list[Effect]:
        if victim.phase is Phase.READY and victim.leases:
            drain(victim, self._now)
            return []
        if victim.phase is Phase.READY:
            return self.leave(victim)
        if victim.phase in (Phase.LOADING, Phase.SLEEPING, Phase.FAILED):
            return stop(victim, self._now)
        return []  # draining or stopping: already on its way

    def _block(self, slot: Slot, holders: tuple[str, ...]) -> None:
        causes = [failure.cause for holder in holders if (failure := self._slots[holder].failure)]
        cause = f"{slot.id} cannot be loaded: {', '.join(holders)} holds its devices and cannot be made to leave"
        fix = "a persistent group keeps it resident; unload it or change the group" if not causes else None
        self.blocked.append((slot, Failure("; ".join([cause, *causes]), fix=fix)))

    # -- who holds what --------------------------------------------------------------------------------------------

    def _residents(self, newcomer: Slot) -> list[Tenant]:
        holding = [slot for slot in self._slots.values() if slot.holding and slot is not newcomer]
        return [self._tenant(slot) for slot in sorted(holding, key=self._give_up_order)]

    def _give_up_order(self, slot: Slot) -> tuple[int, bool, float]:
        return (_GIVE_UP.get(slot.phase, 0), not slot.idle, slot.used_at)

    def _tenant(self, slot: Slot) -> Tenant:
        awake = slot.held if slot.held is not None else slot.profile.demand
        held = slot.held_asleep if slot.phase is Phase.SLEEPING else awake
        return Tenant(slot.id, slot.profile.devices, held)

    def _may_sleep(self, slot: Slot) -> bool:
        if slot.profile.asleep is None:
            return False
        asleep = [other for other in self._slots.values() if other.phase is Phase.SLEEPING or other.sleep_next]
        return sum(other.profile.asleep_ram for other in [*asleep, slot]) <= self._world.sleep_ram

    # -- leftovers -------------------------------------------------------------------------------------------------

    def _forget_left(self) -> None:
        """Whoever stopped waiting has no claim on who left for it."""
        for variant in list(self._made_room):
            slot = self._slots.get(variant)
            if slot is None or not (slot.wanting or slot.restart):
                del self._made_room[variant]

    def _resume_unneeded(self) -> None:
        for slot in self._slots.values():
            if slot.phase is Phase.DRAINING and not slot.leave_after_drain and slot.id not in self._unwanted:
                slot.move(Phase.READY, self._now)
                self.resumed = True

    def _due(self, at: float) -> bool:
        """Whether a time has come; if not, remember to look again then."""
        if at <= self._now:
            return True
        if at != float("inf"):
            self.wake_at = at if self.wake_at is None else min(self.wake_at, at)
        return False
