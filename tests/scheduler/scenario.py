"""Scenarios as tables: one line an event, with the effects it must have and the phases it must leave.

    0   arrive 1 a          -> start a            [a loading]
    5   ready a             -> grant 1
    70  tick                -> stop a

The time comes first. `play` fails when an event has other effects, when a phase in brackets is another one, when the
scheduler asked to be woken before the time of the next line, or did not ask for a `tick` at its time, and when a second
look at the same moment still finds something to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gearshift.domain.errors import Failure
from gearshift.scheduler import (
    Arrive,
    Configure,
    Constraint,
    Died,
    Effect,
    Event,
    Grant,
    Leave,
    LoadFailed,
    Profile,
    Ready,
    Refuse,
    Revoke,
    Scheduler,
    Shutdown,
    SleepVariant,
    Slept,
    Start,
    Stop,
    StopFailed,
    Stopped,
    Tick,
    Unload,
    Wake,
    World,
)

LINE = re.compile(r"(?P<at>[\d.]+)\s+(?P<event>[^\[]+?)\s*(?:->\s*(?P<effects>[^\[]*?))?\s*(?:\[(?P<phases>.*)\])?")
BOOM = "boom"


def variant(name: str, size: int | Mapping[str, int] | None = 10, **facts: Any) -> Profile:
    """A profile on the one GPU ``gpu``, or on those that ``size`` names; None = of unknown size."""
    demand = {"gpu": size} if isinstance(size, int) else size
    return Profile(name, frozenset(demand or {"gpu"}), demand, **facts)


def group(*members: str, swap: bool = True, exclusive: bool = False, persistent: bool = False) -> Constraint:
    return Constraint(frozenset(members), swap, exclusive, persistent)


def world(*profiles: Profile, groups: tuple[Constraint, ...] = (), capacity: int = 10, sleep_ram: int = 0) -> World:
    """A box whose GPUs have ``capacity`` each; by default one variant fills one."""
    devices = sorted({device for profile in profiles for device in profile.devices})
    return World(
        {profile.id: profile for profile in profiles}, dict.fromkeys(devices, capacity), groups, sleep_ram=sleep_ram
    )


def play(first: World, script: str, *, then: World | None = None) -> Scheduler:
    """Run a table; ``then`` is what `configure` brings. Returns the scheduler for further looks."""
    scheduler = Scheduler(first)
    for line in filter(None, map(str.strip, script.splitlines())):
        match = LINE.fullmatch(line)
        assert match, f"not a line of a scenario: {line}"
        now = float(match["at"])
        asked = scheduler.wake_at
        assert asked is None or asked >= now, f"asked to be woken at {asked}, before: {line}"
        assert match["event"] != "tick" or asked == now, f"asked to be woken at {asked}, not: {line}"
        effects = ", ".join(map(told, scheduler.handle(event(match["event"], then), now)))
        assert effects == (match["effects"] or "").strip(), line
        assert scheduler.handle(Tick(), now) == [], f"not settled after: {line}"
        for variant_id, phase in pairs(match["phases"]):
            assert scheduler.slots[variant_id].phase == phase, line
    return scheduler


def pairs(phases: str | None) -> Iterator[tuple[str, str]]:
    for pair in filter(None, (phases or "").split(",")):
        variant_id, phase = pair.split()
        yield variant_id, phase


def event(text: str, then: World | None = None) -> Event:  # noqa: C901, PLR0911 - one case an event
    match text.split():
        case ["arrive", ticket, name, *marks]:
            return Arrive(int(ticket), name, **dict.fromkeys(marks, True))
        case ["leave", ticket]:
            return Leave(int(ticket))
        case ["ready", name, *took]:
            return Ready(name, load_s=float(took[0]) if took else None)
        case ["fails", name]:
            return LoadFailed(name, Failure(BOOM))
        case ["dies", name]:
            return Died(name, Failure(BOOM))
        case ["stopped", name]:
            return Stopped(name)
        case ["stuck", name]:
            return StopFailed(name, Failure(f"pid 7 of {name} is left"))
        case ["slept", name, kept]:
            return Slept(name, {"gpu": int(kept)})
        case ["unload", name]:
            return Unload(name)
        case ["configure"] if then is not None:
            return Configure(then)
        case ["shutdown"]:
            return Shutdown()
        case ["tick"]:
            return Tick()
    msg = f"not an event: {text}"
    raise AssertionError(msg)


def told(effect: Effect) -> str:
    """An effect as the tables write it."""
    match effect:
        case Grant(ticket):
            return f"grant {ticket}"
        case Refuse(ticket, _, reason, failure, retry_after_s):
            cause = f" ({failure.cause})" if failure else ""
            return f"refuse {ticket} {reason}{cause}" + (f" +{retry_after_s:g}" if retry_after_s is not None else "")
        case Revoke(ticket):
            return f"revoke {ticket}"
        case Start(name, stopped) | Wake(name, stopped):
            verb = "start" if isinstance(effect, Start) else "wake"
            return f"{verb} {name}" + (f" after {' '.join(stopped)}" if stopped else "")
        case Stop(name):
            return f"stop {name}"
        case SleepVariant(name):
            return f"sleep {name}"
