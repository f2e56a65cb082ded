"""What can happen to the scheduler, and what it can ask for. Tickets are the caller's own opaque ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gearshift.domain.errors import Failure
from gearshift.scheduler.profile import World

Refusal = Literal["queue_full", "not_resident", "load_failed", "draining", "blocked"]


@dataclass(frozen=True, slots=True)
class Arrive:
    """A request wants a lease on a variant. ``insist`` (an operator's load) overrides a failed variant's back-off."""

    ticket: int
    variant: str
    side: bool = False
    exclusive: bool = False
    insist: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """A waiter gave up, or a lease ended: the scheduler knows which."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A load or wake succeeded; ``held`` are the bytes it was seen to hold, by device."""

    variant: str
    load_s: float | None = None
    held: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """A load or wake failed; nothing of it is assumed to be gone yet."""

    variant: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Died:
    """A ready engine died or stopped answering: its leases are over, without a Revoke. Or a sleeping one died."""

    variant: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Stopped:
    """A verified stop ended: nothing of it is left."""

    variant: str


@dataclass(frozen=True, slots=True)
class StopFailed:
    """Something of it is left; it still holds its devices."""

    variant: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Slept:
    """It sleeps; ``held`` is what it still keeps on each device."""

    variant: str
    held: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Unload:
    """An operator wants it stopped once its leases have ended. Who waits for it is refused."""

    variant: str


@dataclass(frozen=True, slots=True)
class Configure:
    """A new configuration. Variants with another launch or other devices are restarted once idle; streams live on."""

    world: World


@dataclass(frozen=True, slots=True)
class Shutdown:
    """No new work; everything drains and stops."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


Event = Arrive | Leave | Ready | LoadFailed | Died | Stopped | StopFailed | Slept | Unload | Configure | Shutdown | Tick


@dataclass(frozen=True, slots=True)
class Grant:
    """The ticket now holds a lease."""

    ticket: int
    variant: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The wait is over without a lease."""

    ticket: int
    variant: str
    reason: Refusal
    failure: Failure | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Revoke:
    """A drain timeout passed: the lease ends now, and its stream says so."""

    ticket: int
    variant: str
    reason: str


@dataclass(frozen=True, slots=True)
class Start:
    """Load it from nothing. ``stopped`` were made to leave for it."""

    variant: str
    stopped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop it, verified; also cancels a load."""

    variant: str


@dataclass(frozen=True, slots=True)
class SleepVariant:
    """Put it to sleep; answer with Slept, or with Stopped when it had to be stopped after all."""

    variant: str


@dataclass(frozen=True, slots=True)
class Wake:
    """Wake it, or load it cold where waking fails. ``stopped`` were made to leave for it."""

    variant: str
    stopped: tuple[str, ...] = ()


Effect = Grant | Refuse | Revoke | Start | Stop | SleepVariant | Wake
