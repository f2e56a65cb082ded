"""What an operator may ask of a running server; the admin API and the CLI are faces of this."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from gearshift.domain.errors import Problem
from gearshift.domain.leasing import VariantStatus
from gearshift.domain.provenance import Provenance

LONGEST_LEASE_S = 86_400.0  # between two renewals of an operator's lease
JobState = Literal["running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The server as a whole."""

    version: str
    pid: int
    started: float  # unix time
    listen: str  # http://host:port
    config: Path | None
    accepting: bool  # False once a stop was asked for
    variants: Sequence[VariantStatus]


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One thing that happened, for `events` (SSE) and logs: kind such as "variant.state" or "swap.done"."""

    id: int  # ascending; gaps never occur within one server life
    at: float  # unix time
    kind: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """What a reload changed. ``problems`` not empty and ``applied`` False: nothing changed, and why."""

    applied: bool
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # restarted once they are idle
    untouched: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorLease:
    """A lease taken through the admin API: it keeps a variant resident until released or ``ttl_s`` passes unrenewed."""

    id: str
    variant: str
    exclusive: bool  # no other request is admitted to the variant while it is held
    ttl_s: float
    expires: float  # unix time
    endpoint: str  # the engine's base URL, for a holder on this box


@dataclass(frozen=True, slots=True)
class Job:
    """A long piece of work run as a child process, such as a benchmark."""

    id: str
    argv: tuple[str, ...]  # gearshift verb and arguments
    state: JobState
    started: float
    ended: float | None
    exit_code: int | None
    log: Path


class Admin(Protocol):
    """Everything the admin API can do. Raises UnknownModelError, LoadFailedError, QueueFullError, GearshiftError."""

    def status(self) -> ServerStatus: ...

    async def load(self, variant: str) -> None:
        """Make it resident and return when it is ready; swaps like a request would."""
        ...

    async def unload(self, variant: str) -> None:
        """Drain, stop and verify; returns when it is stopped. Raises StopIncompleteError."""
        ...

    def log_path(self, variant: str) -> Path | None:
        """The newest launch's log file, or None when it was never started."""
        ...

    async def provenance(self, variant: str) -> Provenance:
        """What runs: its command line, files, box. The first answer may take as long as reading its weights does.

        Secrets and the names of home folders are taken out. Raises NotRunningError.
        """
        ...

    async def reload(self) -> ReloadReport: ...

    async def take_lease(self, variant: str, *, exclusive: bool, ttl_s: float) -> OperatorLease: ...

    def renew_lease(self, lease_id: str, *, ttl_s: float | None = None) -> OperatorLease:
        """Raises UnknownIdError."""
        ...

    def end_lease(self, lease_id: str) -> None:
        """Raises UnknownIdError."""
        ...

    def leases(self) -> Sequence[OperatorLease]: ...

    def start_job(self, argv: Sequence[str]) -> Job:
        """Raises GearshiftError for a verb that is no job, DrainingError while the server is stopping."""
        ...

    def cancel_job(self, job_id: str) -> Job:
        """Raises UnknownIdError."""
        ...

    def jobs(self) -> Sequence[Job]: ...

    def events(self, *, after: int | None = None) -> AbstractAsyncContextManager[AsyncIterator[ServerEvent]]:
        """Subscribe: past events newer than ``after`` that are still kept, then new ones as they happen."""
        ...

    def shutdown(self) -> None:
        """Ask the server to end: refuse new work, drain, stop every engine verified, exit."""
        ...
