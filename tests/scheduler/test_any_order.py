"""Whatever happens, in whatever order: the contracts hold, nobody is forgotten, and the same events do the same."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gearshift.domain.errors import Failure
from gearshift.scheduler import (
    Arrive,
    Configure,
    Constraint,
    Died,
    Leave,
    LoadFailed,
    Profile,
    StopFailed,
    Stopped,
    Tick,
    Unload,
    World,
)
from scheduler.box import Box
from scheduler.scenario import group, world

NAMES = ("a", "b", "c", "d")
DEMANDS: list[Mapping[str, int] | None] = [
    None,
    {"gpu0": 4},
    {"gpu0": 10},
    {"gpu1": 6},
    {"gpu0": 6, "gpu1": 6},
    {"gpu0": 12},  # fits nowhere by its plan
]
GROUPS: list[tuple[Constraint, ...]] = [
    (),
    (group("a", "b"),),
    (group("a", "b", swap=False),),
    (group("a", exclusive=True), group("b", persistent=True)),
    (group("a", "b", persistent=True), group("c", "d", exclusive=True)),
]
BOOM = Failure("boom")


@st.composite
def profiles(draw: st.DrawFn, name: str) -> Profile:
    demand = draw(st.sampled_from(DEMANDS))
    sleeps = demand is not None and draw(st.booleans())
    return Profile(
        name,
        frozenset(demand or {"gpu0"}),
        demand,
        max_inflight=draw(st.integers(1, 2)),
        queue_limit=draw(st.sampled_from([1, 100])),
        max_wait_s=draw(st.sampled_from([0, 20, 60])),
        min_resident_s=draw(st.sampled_from([0, 10])),
        drain_timeout_s=draw(st.sampled_from([None, 0, 5])),
        unload_after_s=draw(st.sampled_from([None, 0, 30])),
        asleep=dict.fromkeys(demand or {}, 1) if sleeps else None,
        asleep_ram=4,
        launch=f"{demand} {sleeps}",  # what is held belongs to a launch
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    made = world(*[draw(profiles(name)) for name in names], groups=draw(st.sampled_from(GROUPS)), sleep_ram=6)
    return World(made.profiles, {"gpu0": 10, "gpu1": 10}, made.constraints, made.sleep_ram)


class AnyOrder(RuleBasedStateMachine):
    """Requests come and go, engines answer well, badly or late, operators and reloads interfere."""

    box: Box
    first: World

    @initialize(first=worlds())
    def boot(self, first: World) -> None:
        self.first, self.box = first, Box(first)

    def pick(self, choices: list[str], choice: int) -> str:
        return choices[choice % len(choices)]

    @rule(name=st.sampled_from(NAMES), marks=st.sampled_from(["", "", "", "side", "exclusive", "insist"]))
    def arrive(self, name: str, marks: str) -> None:
        ticket = len(self.box.tickets)
        self.box.tell(Arrive(ticket, name, **dict.fromkeys(marks.split(), True)))

    @precondition(lambda self: self.box.tickets)
    @rule(choice=st.integers(0))
    def leave(self, choice: int) -> None:
        self.box.tell(Leave(choice % len(self.box.tickets)))  # perhaps one that was refused or is long over

    @precondition(lambda self: self.box.under_way())
    @rule(choice=st.integers(0))
    def answer_well(self, choice: int) -> None:
        self.box.succeed(self.pick(self.box.under_way(), choice))

    @precondition(lambda self: self.box.under_way())
    @rule(choice=st.integers(0))
    def answer_badly(self, choice: int) -> None:
        variant = self.pick(self.box.under_way(), choice)
        match self.box.engines[variant].state:
            case "loading":
                self.box.tell(LoadFailed(variant, BOOM))
            case "falling asleep":
                self.box.tell(Stopped(variant))
            case _:
                self.box.tell(StopFailed(variant, BOOM))

    @precondition(lambda self: self.box.engines)
    @rule(choice=st.integers(0))
    def die(self, choice: int) -> None:
        variant = self.pick(list(self.box.engines), choice)
        if self.box.engines[variant].state in ("ready", "asleep"):
            self.box.tell(Died(variant, BOOM))

    @rule(name=st.sampled_from(NAMES))
    def unload(self, name: str) -> None:
        self.box.tell(Unload(name))

    @rule(new=worlds())
    def reload(self, new: World) -> None:
        self.box.tell(Configure(new))

    @rule(seconds=st.sampled_from([0, 1, 5, 10, 61]))
    def let_time_pass(self, seconds: float) -> None:
        """At times beyond the wake-up asked for: a busy loop delivers late."""
        self.box.now += seconds

    @rule()
    def tick(self) -> None:
        wake_at = self.box.scheduler.wake_at
        self.box.now = max(self.box.now, wake_at if wake_at is not None else 0)
        self.box.tell(Tick())

    @invariant()
    def settled(self) -> None:
        if hasattr(self, "box") and not self._late():
            self.box.check_settled()

    def _late(self) -> bool:
        wake_at = self.box.scheduler.wake_at
        return wake_at is not None and wake_at <= self.box.now

    def teardown(self) -> None:
        if hasattr(self, "box"):
            self.box.tell(Tick())
            self.box.come_to_rest()
            self.box.check_deterministic(self.first)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
