"""Whose turn it is: what may start now, what has to make room for it and when, what has been idle long enough.

A `Settlement` looks at all slots once, in the order in which their waiters began to wait. What an earlier one needs is
claimed, so that a later one may overtake it only where it takes nothing from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gearshift.domain.errors import Failure
from gearshift.scheduler.events import Effect, SleepVariant, Start, Stop, Wake
from gearshift.scheduler.fit import Eviction, Tenant, eviction_for
from gearshift.scheduler.profile import World
from gearshift.scheduler.slot import RESTING, Phase, Slot

NEVER = float("inf")
UNKNOWN_SIZE = "give it a `memory` figure, unload what holds its devices, or change the group that keeps it resident"


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


@dataclass(slots=True)
class Claim:
    """The place that a waiting slot needs and does not have yet; nobody later may take it."""

    slot: Slot
    newcomer: Tenant
    leaving: list[Slot]
    due: float  # when busy tenants must begin to drain: the patience of its own waiter, or of one who waits behind it


@dataclass(frozen=True, slots=True)
class Blocked:
    """A slot whose waiters can only be refused: its place is held for good, or at least to ``until``."""

    slot: Slot
    failure: Failure
    until: float | None


class Settlement:
    """One look at every slot at one moment."""

    def __init__(
        self, world: World, slots: Mapping[str, Slot], made_room: dict[str, tuple[str, ...]], now: float
    ) -> None:
        self._world = world
        self._slots = slots
        self._made_room = made_room
        self._now = now
        self._claims: dict[str, Claim] = {}
        self.blocked: list[Blocked] = []
        self.resumed = False  # a drain was taken back, so leases can be granted again
        self.wake_at: float | None = None

    def retry_stuck(self) -> list[Effect]:
        """Try again to stop what an earlier stop left behind."""
        stuck = [slot for slot in self._slots.values() if slot.stuck and slot.phase is Phase.FAILED]
        return [effect for slot in stuck if self._due(slot.retry_at) for effect in stop(slot, self._now)]

    def take_turns(self) -> list[Effect]:
        """Start what fits, make room where the time for it has come, take back drains that nobody needs any more."""
        effects = [effect for slot in self._waiting() for effect in self._turn(slot)]
        effects.extend(effect for claim in self._claims.values() for effect in self._make_room(claim))
        self._forget_left()
        self._resume_unneeded()
        return effects

    def unload_idle(self) -> list[Effect]:
        """Make variants leave that nobody has used for their idle time."""
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
        slot.forget_failures_if_healthy(self._now)
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
        resting = [slot for slot in self._slots.values() if slot.phase in RESTING and not slot.stuck]
        wanted = [slot for slot in resting if slot.wanting or slot.restart]
        due = [slot for slot in wanted if slot.failure is None or self._due(slot.retry_at)]
        return sorted(due, key=_asked_at)

    def _turn(self, slot: Slot) -> list[Effect]:
        """Start it if it fits; else note what it claims, or that it waits behind an earlier claim.

        It must fit twice: beside those that will hold devices once all earlier claims are met, so that it takes nothing
        from them, and beside those that hold devices now.
        """
        newcomer, residents = self._tenant(slot, awake=True), self._residents(slot)
        later = eviction_for(self._world, newcomer, self._after_claims(residents))
        if self._gives_way(slot, later):
            return []
        now = self._eviction_now(newcomer, residents, later)
        leaving = [self._slots[name] for name in (*later.victims, *now.victims)]
        if leaving:
            self._claim(Claim(slot, newcomer, leaving, _due_at(slot)))
        elif not now.blocked_by:
            return [self._start(slot)]
        return []

    def _after_claims(self, residents: list[Tenant]) -> list[Tenant]:
        """Who will hold devices once every claim has been met."""
        going = {victim.id for claim in self._claims.values() for victim in claim.leaving}
        staying = [tenant for tenant in residents if tenant.id not in going]
        return [*staying, *(claim.newcomer for claim in self._claims.values())]

    def _gives_way(self, slot: Slot, later: Eviction) -> bool:
        """Lend its patience to the claims in its way, note tenants that never leave; whether there are any such."""
        in_the_way = (*later.victims, *later.blocked_by)
        ahead = [self._claims[name] for name in in_the_way if name in self._claims]
        for claim in ahead:
            claim.due = min(claim.due, _due_at(slot))
        holders = [self._slots[name] for name in later.blocked_by if name not in self._claims]
        if holders:
            self._block(slot, holders)
        return bool(ahead or holders)

    def _eviction_now(self, newcomer: Tenant, residents: list[Tenant], later: Eviction) -> Eviction:
        """Who else must leave because a claim is not met yet: its tenants are still there. Without claims, nobody."""
        if not self._claims:
            return Eviction()
        staying = [tenant for tenant in residents if tenant.id not in later.victims]
        return eviction_for(self._world, newcomer, staying)

    def _claim(self, claim: Claim) -> None:
        if claim.slot.wanting is not None:
            self._claims[claim.slot.id] = claim
        elif any(tenant.phase is not Phase.STOPPING for tenant in claim.leaving):
            claim.slot.restart = False  # somebody else has its place now, and nobody waits for it

    def _start(self, slot: Slot) -> Effect:
        wake = slot.phase is Phase.SLEEPING
        slot.move(Phase.LOADING, self._now)
        slot.drain_from = 0.0
        stopped = self._made_room.pop(slot.id, ())
        return Wake(slot.id, stopped) if wake else Start(slot.id, stopped)

    def _block(self, slot: Slot, holders: list[Slot]) -> None:
        slot.restart = False
        names = ", ".join(holder.id for holder in holders)
        causes = [holder.failure.cause for holder in holders if holder.failure]
        cause = f"{slot.id} cannot be loaded: {names} holds its devices and cannot be made to leave"
        until = max((holder.retry_at for holder in holders if holder.stuck), default=None)
        failure = Failure("; ".join([cause, *causes]), fix=None if causes else UNKNOWN_SIZE)
        self.blocked.append(Blocked(slot, failure, until))

    # -- making room -----------------------------------------------------------------------------------------------

    def _make_room(self, claim: Claim) -> list[Effect]:
        """All leave together, or none before its time: stopping one early would cost it and gain nothing."""
        latest = max(self._evictable_at(victim, claim.due) for victim in claim.leaving)
        if latest == NEVER or not self._due(latest):
            return []
        known = self._made_room.get(claim.slot.id, ())
        more = tuple(victim.id for victim in claim.leaving if victim.id not in known)
        self._made_room[claim.slot.id] = known + more
        return [effect for victim in claim.leaving for effect in self._evict(victim)]

    def _evictable_at(self, victim: Slot, due: float) -> float:
        """The time from which ``victim`` may be made to leave; now or earlier = at once, infinity = after an event."""
        if victim.phase is Phase.LOADING:
            return NEVER if victim.wanting else self._now  # a load nobody waits for is cancelled
        if victim.phase is not Phase.READY:
            return self._now
        settled = victim.ready_at + victim.profile.min_resident_s
        return settled if victim.idle else max(settled, due)

    def _evict(self, victim: Slot) -> list[Effect]:
        if victim.phase is Phase.READY and victim.leases:
            drain(victim, self._now)
            return []
        if victim.phase is Phase.READY:
            return self.leave(victim)
        if victim.phase in (Phase.LOADING, Phase.SLEEPING):
            return stop(victim, self._now)
        return []  # draining or stopping: already on its way

    # -- who holds what --------------------------------------------------------------------------------------------

    def _residents(self, newcomer: Slot) -> list[Tenant]:
        holding = [slot for slot in self._slots.values() if slot.holding and slot is not newcomer]
        return [self._tenant(slot) for slot in sorted(holding, key=_give_up_order)]

    def _tenant(self, slot: Slot, *, awake: bool = False) -> Tenant:
        """A slot as it holds its devices now, or as it would once ``awake``."""
        if slot.phase is Phase.SLEEPING and not awake:
            return self._sleeper(slot)
        held = slot.held if slot.held is not None else slot.profile.demand
        return Tenant(slot.id, slot.profile.devices, held, fixed=slot.stuck and slot.phase is Phase.FAILED)

    def _sleeper(self, slot: Slot) -> Tenant:
        residue = slot.held_asleep if slot.held_asleep is not None else slot.profile.asleep
        return Tenant(slot.id, slot.profile.devices, residue, asleep=True)

    def _may_sleep(self, slot: Slot) -> bool:
        """Whether host memory has room for it, and the variants it leaves for fit beside what it would keep."""
        if slot.profile.asleep is None:
            return False
        asleep = [other for other in self._slots.values() if other.phase is Phase.SLEEPING or other.sleep_next]
        if sum(other.profile.asleep_ram for other in [*asleep, slot]) > self._world.sleep_ram:
            return False
        heirs = [self._slots[variant] for variant, left in self._made_room.items() if slot.id in left]
        return not any(
            eviction_for(self._world, self._tenant(heir, awake=True), [self._sleeper(slot)]).victims for heir in heirs
        )

    # -- leftovers -------------------------------------------------------------------------------------------------

    def _forget_left(self) -> None:
        """A variant that nobody waits for any more forgets which others left to make room for it."""
        for variant in list(self._made_room):
            slot = self._slots.get(variant)
            if slot is None or slot.wanting is None:
                del self._made_room[variant]

    def _resume_unneeded(self) -> None:
        unwanted = {victim.id for claim in self._claims.values() for victim in claim.leaving}
        for slot in self._slots.values():
            if slot.phase is Phase.DRAINING and not slot.leave_after_drain and slot.id not in unwanted:
                slot.move(Phase.READY, self._now)
                slot.drain_from = 0.0
                self.resumed = True

    def _due(self, at: float) -> bool:
        """Whether a time has come; if not, remember to look again then."""
        if at <= self._now:
            return True
        if at != NEVER:
            self.wake_at = at if self.wake_at is None else min(self.wake_at, at)
        return False


def _asked_at(slot: Slot) -> float:
    """Since when it waits for a turn. Waiters that its last turn left over stand behind those that have had none."""
    waiter = slot.wanting
    return max(waiter.arrived, slot.turn_ended) if waiter else NEVER  # a restart nobody waits for yields to all


def _due_at(slot: Slot) -> float:
    """Until when its oldest waiter lets a busy tenant carry on."""
    waiter = slot.wanting
    return waiter.arrived + slot.profile.max_wait_s if waiter else NEVER


def _give_up_order(slot: Slot) -> tuple[int, float]:
    """Cheapest to give up first: those that leave anyway, then idle ones; a load that somebody waits for comes last."""
    match slot.phase:
        case Phase.STOPPING:
            rank = 0
        case Phase.DRAINING:
            rank = 1
        case Phase.SLEEPING:
            rank = 2
        case Phase.LOADING:
            rank = 6 if slot.wanting else 3
        case _:
            rank = 4 if slot.idle else 5
    return rank, slot.used_at
