"""One variant's place in the scheduler: its phase, its queue, its leases.

The phases, who moves between them, and why:

stopped  -> loading                 a waiter, and room
loading  -> ready | stopping        the engine said so | cancelled or failed
ready    -> draining | stopping     somebody else's turn, an unload, a new configuration | idle, or it died
draining -> ready | stopping        nobody wants its place any more | its last lease ended, or it died
stopping -> stopped | failed | sleeping
sleeping -> loading | stopping      a waiter | its residue is in the way, an unload, or it died
failed   -> loading | stopping | stopped    a waiter after the back-off | what is left is tried again | forgiven
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gearshift.domain.errors import Failure
from gearshift.scheduler.profile import Profile


class Phase(StrEnum):
    """Where a variant is in its life."""

    STOPPED = "stopped"
    LOADING = "loading"
    READY = "ready"
    SLEEPING = "sleeping"
    DRAINING = "draining"
    STOPPING = "stopping"
    FAILED = "failed"


# Phases in which a variant holds its devices. A failed one holds them only if its stop could not be verified.
HOLDING = frozenset({Phase.LOADING, Phase.READY, Phase.SLEEPING, Phase.DRAINING, Phase.STOPPING})
RESTING = frozenset({Phase.STOPPED, Phase.SLEEPING, Phase.FAILED})

LEGAL: Mapping[Phase, frozenset[Phase]] = {
    Phase.STOPPED: frozenset({Phase.LOADING}),
    Phase.LOADING: frozenset({Phase.READY, Phase.STOPPING}),
    Phase.READY: frozenset({Phase.DRAINING, Phase.STOPPING}),
    Phase.DRAINING: frozenset({Phase.READY, Phase.STOPPING}),
    Phase.STOPPING: frozenset({Phase.STOPPED, Phase.FAILED, Phase.SLEEPING}),
    Phase.SLEEPING: frozenset({Phase.LOADING, Phase.STOPPING}),
    Phase.FAILED: frozenset({Phase.LOADING, Phase.STOPPING, Phase.STOPPED}),
}

BACKOFF_S = (2.0, 10.0, 60.0, 300.0)  # before the next try after the 1st, 2nd, ... failure in a row
STUCK_RETRY_S = (5.0, 15.0, 60.0)  # before a stop that left something behind is tried again
HEALTHY_S = 60.0  # once ready for this long, earlier failures are forgotten
RESTARTS = 3  # in a row, of an engine that died by itself; after the next death it stays down


@dataclass(frozen=True, slots=True)
class Waiter:
    """A request in a variant's queue."""

    ticket: int
    arrived: float
    side: bool
    exclusive: bool


@dataclass(slots=True)
class Slot:
    """Mutable state of one variant; only the scheduler writes it. Times are the caller's clock, seconds."""

    profile: Profile
    phase: Phase = Phase.STOPPED
    since: float = 0.0
    queue: list[Waiter] = field(default_factory=list)
    leases: dict[int, bool] = field(default_factory=dict)  # ticket -> exclusive
    ready_at: float = 0.0
    used_at: float = 0.0  # last time a lease was granted or ended
    drain_from: float = 0.0
    turn_ended: float = float("-inf")  # when it last ceased to be ready: its waiters queue up anew behind the others
    leave_after_drain: bool = False  # an unload, a shutdown or a new configuration: draining cannot be taken back
    sleep_next: bool = False  # the stop under way is a falling asleep
    held: Mapping[str, int] | None = None  # bytes by device, measured while ready; kept as the better plan
    held_asleep: Mapping[str, int] | None = None  # bytes by device, measured asleep
    load_s: float | None = None  # measured
    failure: Failure | None = None
    failures: int = 0  # in a row
    retry_at: float = 0.0
    restart: bool = False  # it was resident: bring it back, even without a waiter, while its room is free
    stuck: bool = False  # its stop could not be verified: it still holds its devices
    stuck_stops: int = 0  # stops in a row that could not be verified
    earlier_failure: Failure | None = None  # why it was stopped, while ``failure`` says why the stop failed
    next_profile: Profile | None = None  # takes over once this life is over
    removed: bool = False  # gone from the configuration: forgotten once stopped

    @property
    def id(self) -> str:
        return self.profile.id

    @property
    def holding(self) -> bool:
        return self.phase in HOLDING or self.stuck

    @property
    def idle(self) -> bool:
        return not self.leases and not self.queue

    @property
    def wanting(self) -> Waiter | None:
        """The oldest waiter that may cause a swap."""
        return next((waiter for waiter in self.queue if not waiter.side), None)

    @property
    def calm(self) -> bool:
        """Whether no turn hangs on it. Where all are calm, a lease that comes or goes changes nothing but its slot."""
        return self.phase is not Phase.DRAINING and not (self.phase in RESTING and self.queue)

    @property
    def load_estimate_s(self) -> float:
        return self.load_s if self.load_s is not None else self.profile.load_estimate_s

    def move(self, phase: Phase, now: float) -> None:
        """Change phase. Raises ValueError on a move that the table does not know: a fault of ours, not of the box."""
        if phase not in LEGAL[self.phase]:
            msg = f"{self.id} cannot go from {self.phase} to {phase}"
            raise ValueError(msg)
        if self.phase is Phase.READY:
            self.turn_ended = now
        self.phase, self.since = phase, now

    def grantable(self) -> Waiter | None:
        """The waiter that may have a lease now, in arrival order; an exclusive one waits until it is alone."""
        if self.phase is not Phase.READY or not self.queue or any(self.leases.values()):
            return None
        head = self.queue[0]
        if head.exclusive:
            return head if not self.leases else None
        return head if len(self.leases) < self.profile.max_inflight else None

    def backing_off(self, now: float) -> bool:
        """Whether a request could only wait for a retry that is not due yet. It is told the cause at once instead."""
        down = self.phase is Phase.FAILED or (self.phase is Phase.STOPPING and self.failure is not None)
        return down and now < self.retry_at and not self.restart

    def note_failure(self, failure: Failure, now: float) -> None:
        """Count a failure in a row and set the time before which no new try is made."""
        self.forget_failures_if_healthy(now)
        self.failure = failure
        self.retry_at = now + BACKOFF_S[min(self.failures, len(BACKOFF_S) - 1)]
        self.failures += 1

    def note_stuck(self, failure: Failure, now: float) -> None:
        """Its stop left something behind, which keeps its devices until a later stop finds nothing."""
        if not self.stuck:
            self.earlier_failure = self.failure
        self.stuck, self.failure = True, failure
        self.retry_at = now + STUCK_RETRY_S[min(self.stuck_stops, len(STUCK_RETRY_S) - 1)]
        self.stuck_stops += 1

    def end_life(self) -> None:
        """Nothing of its engine is left: forget what belonged to that life, take the profile that waited for it."""
        if self.stuck:
            self.failure = self.earlier_failure
        self.stuck = self.sleep_next = self.leave_after_drain = False
        self.stuck_stops, self.earlier_failure = 0, None
        if self.next_profile is not None:
            self.take_profile(self.next_profile)

    def take_profile(self, profile: Profile) -> None:
        """Become another launch: what was measured of the old one, and its failures, say nothing of it."""
        self.profile, self.next_profile = profile, None
        self.load_s = self.held = self.held_asleep = self.failure = None
        self.failures = 0

    def forget_failures_if_healthy(self, now: float) -> None:
        """Failures count in a row only: a good while of being ready ends the row."""
        if self.phase in (Phase.READY, Phase.DRAINING) and now - self.ready_at >= HEALTHY_S:
            self.failures = 0
