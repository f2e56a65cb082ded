"""How a face gets an engine for one request: resolve a name, queue, hold a lease, let go."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gearshift.domain.errors import Failure
from gearshift.domain.launch import Endpoint, MetricNames
from gearshift.domain.variant import Variant

State = Literal["stopped", "loading", "ready", "sleeping", "draining", "stopping", "failed"]
RESIDENT: frozenset[State] = frozenset({"ready", "draining"})  # loaded and able to answer


@dataclass(frozen=True, slots=True)
class Route:
    """What a model name in a request resolved to."""

    variant: Variant
    side: bool = False  # named by a side alias


@dataclass(frozen=True, slots=True)
class Upstream:
    """A resident engine to talk to."""

    endpoint: Endpoint
    served_name: str
    headers: Mapping[str, str]
    metrics: MetricNames
    metrics_path: str | None


class Lease(Protocol):
    """A request's hold on a resident variant. Releasing it frees the variant; releasing twice is harmless."""

    @property
    def variant(self) -> Variant: ...

    @property
    def upstream(self) -> Upstream: ...

    @property
    def queued_s(self) -> float:
        """Seconds between asking and being granted, without the load."""
        ...

    @property
    def load_s(self) -> float:
        """Seconds of that wait in which the variant was being loaded; 0 when it was resident."""
        ...

    def revoked(self) -> Awaitable[str]:
        """Resolves with the reason when the engine died or a drain timeout took the lease back."""
        ...

    def release(self) -> None: ...


class Ticket(Protocol):
    """A place in a variant's queue."""

    @property
    def progress(self) -> str:
        """One line for a keep-alive comment: "queued, 2 ahead" or "loading weights 40 %"."""
        ...

    async def wait(self, timeout_s: float | None = None) -> Lease | None:
        """The lease, or None when ``timeout_s`` passed first (the place is kept: call again).

        Raises LoadFailedError, QueueFullError or DrainingError when the wait is over without one.
        """
        ...

    def leave(self) -> None:
        """Give up the place (the client went away), or a lease granted meanwhile. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class VariantStatus:
    """One row of `ps`; `ps --json` and the admin API print these fields under these names. None = unknown."""

    variant: str
    engine: str
    engine_version: str | None
    state: State
    pids: tuple[int, ...]
    port: int | None
    gpus: tuple[str, ...]
    planned_bytes: int | None
    measured_bytes: int | None
    context: int | None
    in_flight: int
    queued: int
    stage: str | None
    since_s: float | None  # seconds in this state
    unload_in_s: float | None
    failure: Failure | None


class Broker(Protocol):
    """What the data path needs of control."""

    def resolve(self, name: str | None) -> Route:
        """The variant a model name means; None is allowed when only one model exists. Raises UnknownModelError."""
        ...

    def request(self, variant: str, *, side: bool = False) -> Ticket:
        """Join the variant's queue. Raises QueueFullError (with Retry-After), NotResidentError or DrainingError."""
        ...

    def share(self, lease_id: str, variant: str) -> Lease:
        """A share in an operator's lease on the variant: served at once, and over with it. Raises UnknownIdError."""
        ...

    def peek(self, variant: str) -> Upstream | None:
        """The resident engine of a variant for requests that must never cause a load, or None."""
        ...

    def statuses(self) -> Sequence[VariantStatus]:
        """Every variant in file order."""
        ...
