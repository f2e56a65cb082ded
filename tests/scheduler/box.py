"""A box with engines that are not there: it carries out effects, and fails where one breaks a contract.

It keeps its own account of who holds which bytes and which lease, from effects and events alone, so that what the
scheduler believes is never asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from gearshift.scheduler import (
    Arrive,
    Configure,
    Died,
    Effect,
    Event,
    Grant,
    Leave,
    LoadFailed,
    Phase,
    Profile,
    Ready,
    Refuse,
    Revoke,
    Scheduler,
    SleepVariant,
    Slept,
    Start,
    Stop,
    StopFailed,
    Stopped,
    Tick,
    Wake,
    World,
)
from gearshift.scheduler.fit import Tenant, may_share

EngineState = Literal["loading", "ready", "asleep", "falling asleep", "stopping", "stuck"]
Outcome = Literal["waiting", "granted", "refused", "left", "over"]
UNDER_WAY = ("loading", "falling asleep", "stopping")


@dataclass(slots=True)
class Engine:
    """One engine's process tree as the box sees it."""

    profile: Profile
    state: EngineState

    @property
    def tenant(self) -> Tenant:
        asleep = self.state == "asleep"
        held = self.profile.asleep if asleep else self.profile.demand
        return Tenant(self.profile.id, self.profile.devices, held, asleep=asleep)


@dataclass
class Box:
    """Engines and tickets, fed by one scheduler; ``history`` is every event with its time and effects."""

    world: World
    now: float = 0.0
    engines: dict[str, Engine] = field(default_factory=dict)
    tickets: dict[int, Outcome] = field(default_factory=dict)
    asked: dict[int, Arrive] = field(default_factory=dict)
    leases: dict[str, set[int]] = field(default_factory=dict)
    history: list[tuple[Event, float, list[Effect]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.world)

    # -- events --------------------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> list[Effect]:
        """Let an event happen to the box and to the scheduler, and carry out what comes of it."""
        self._happen(event)
        effects = self.scheduler.handle(event, self.now)
        self.history.append((event, self.now, effects))
        for effect in effects:
            self._carry_out(effect)
        self.check()
        return effects

    def _happen(self, event: Event) -> None:  # noqa: C901 - one case an event
        match event:
            case Arrive(ticket):
                self.asked[ticket], self.tickets[ticket] = event, "waiting"
            case Leave(ticket) if self.tickets[ticket] in ("waiting", "granted"):
                self.tickets[ticket] = "left"
                for leases in self.leases.values():
                    leases.discard(ticket)
            case Ready(variant):
                self.engines[variant].state = "ready"
            case LoadFailed(variant):
                assert self.engines[variant].state == "loading"
            case Died(variant):
                self._end_leases(variant)
            case Slept(variant):
                self.engines[variant].state = "asleep"
            case Stopped(variant):
                del self.engines[variant]
            case StopFailed(variant):
                self.engines[variant].state = "stuck"
            case Configure(world):
                self.world = world

    def _end_leases(self, variant: str) -> None:
        for ticket in self.leases.pop(variant, set()):
            self.tickets[ticket] = "over"

    # -- effects -------------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Grant(ticket, variant):
                self._grant(ticket, variant)
            case Refuse(ticket):
                assert self.tickets[ticket] == "waiting", effect
                self.tickets[ticket] = "refused"
            case Revoke(ticket, variant):
                self.leases[variant].remove(ticket)
                self.tickets[ticket] = "over"
            case Start(variant):
                assert variant not in self.engines, "started though something of it is left"
                self.engines[variant] = Engine(self._profile(variant), "loading")
                self._check_room(variant)
            case Wake(variant):
                assert self.engines[variant].state == "asleep"
                self.engines[variant].state = "loading"
                self._check_room(variant)
            case Stop(variant):
                assert self.engines[variant].state not in ("falling asleep", "stopping"), "stopped twice"
                assert not self.leases.get(variant), "stopped under its leases"
                self.engines[variant].state = "stopping"
            case SleepVariant(variant):
                assert self.engines[variant].state == "ready"
                assert not self.leases.get(variant), "put to sleep under its leases"
                self.engines[variant].state = "falling asleep"

    def _profile(self, variant: str) -> Profile:
        return self.scheduler.slots[variant].profile

    def _grant(self, ticket: int, variant: str) -> None:
        asked, leases = self.asked[ticket], self.leases.setdefault(variant, set())
        assert self.tickets[ticket] == "waiting", "granted to somebody who does not wait"
        assert asked.variant == variant
        assert self.engines[variant].state == "ready", "granted on an engine that is not ready"
        assert len(leases) < self._profile(variant).max_inflight, "granted beyond max_inflight"
        assert not any(self.asked[other].exclusive for other in leases), "granted beside an exclusive lease"
        assert not (asked.exclusive and leases), "an exclusive lease granted beside another"
        leases.add(ticket)
        self.tickets[ticket] = "granted"

    def _check_room(self, newcomer: str) -> None:
        """No device over its capacity, none shared against groups or with unknown sizes, when an engine starts."""
        mine = self.engines[newcomer].tenant
        others = [engine.tenant for name, engine in self.engines.items() if name != newcomer]
        assert all(may_share(self.world, mine, other) for other in others), f"{newcomer} beside {self.engines}"
        assert len({mine.id, *(other.id for other in others)}) == len(others) + 1
        rivals = [other for other in others if other.devices & mine.devices and not self._declared(mine, other)]
        for device, need in (mine.held or {}).items():
            held = sum((other.held or {}).get(device, 0) for other in rivals)
            assert not held or held + need <= self.world.capacity[device], f"{device} overfull: {self.engines}"

    def _declared(self, one: Tenant, other: Tenant) -> bool:
        return any(not group.swap and {one.id, other.id} <= group.members for group in self.world.constraints)

    # -- what always holds ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        asleep = [engine.profile.asleep_ram for engine in self.engines.values() if engine.state == "asleep"]
        assert sum(asleep) <= self.world.sleep_ram, "sleepers beyond the host's memory"
        queued = {waiter.ticket for slot in self.scheduler.slots.values() for waiter in slot.queue}
        assert queued == {ticket for ticket, outcome in self.tickets.items() if outcome == "waiting"}
        held = {ticket for slot in self.scheduler.slots.values() for ticket in slot.leases}
        assert held == {ticket for leases in self.leases.values() for ticket in leases}
        assert {name for name, slot in self.scheduler.slots.items() if slot.holding} == set(self.engines)

    def check_settled(self) -> None:
        """At the same moment nothing is left to do, and waiters stand still only for time or for somebody's answer."""
        assert self.tell(Tick()) == []
        waiting = "waiting" in self.tickets.values()
        answers = any(engine.state in UNDER_WAY for engine in self.engines.values()) or any(self.leases.values())
        assert not waiting or answers or self.scheduler.wake_at is not None, "a wake-up was lost"

    def check_deterministic(self, first: World) -> None:
        """The same events have the same effects, with and without the short cut of the hot path."""
        again, thorough = Scheduler(first), Scheduler(first)
        for event, now, effects in self.history:
            thorough._calm = False
            assert again.handle(event, now) == thorough.handle(event, now) == effects
        assert all(one is not other for one, other in combinations((again, thorough, self.scheduler), 2))

    def under_way(self) -> list[str]:
        """Engines that owe an answer, in the order in which they were asked."""
        return [name for name, engine in self.engines.items() if engine.state in UNDER_WAY]

    def succeed(self, variant: str) -> None:
        """Let what is under way for an engine end well."""
        engine = self.engines[variant]
        if engine.state == "loading":
            self.tell(Ready(variant, held=engine.profile.demand))
        elif engine.state == "falling asleep":
            self.tell(Slept(variant, engine.profile.asleep or {}))
        else:
            self.tell(Stopped(variant))

    def come_to_rest(self) -> None:
        """Let every lease end and every engine answer well, time moving on: everybody must be served or refused."""
        for _ in range(2000):
            granted = [ticket for ticket, outcome in self.tickets.items() if outcome == "granted"]
            if granted:
                self.tell(Leave(granted[0]))
            elif moving := self.under_way():
                self.succeed(moving[0])
            elif self.scheduler.wake_at is not None:
                self.now = max(self.now, self.scheduler.wake_at)
                self.tell(Tick())
            else:
                break
            self.check_settled()
        assert "waiting" not in self.tickets.values(), "somebody waits for ever"
        assert not self.under_way()
        assert all(self.scheduler.slots[name].phase in (Phase.READY, Phase.SLEEPING) for name in self.engines)
