"""The launch spec: all that a supervisor needs to start, watch and stop an engine it knows nothing of."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gearshift.domain.errors import Failure
from gearshift.domain.startup import LogFold, StartReport
from gearshift.domain.variant import Probe, Timing


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an engine answers: ``http://127.0.0.1:PORT`` without a trailing slash."""

    base_url: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a variant goes and what the planner fixed for it."""

    devices: tuple[str, ...]  # device ids: GPU UUIDs in order, or ("cpu",)
    kv_bytes: int | None = None  # per device, resolved from `kv_bytes: auto`
    context: int | None = None


@dataclass(frozen=True, slots=True)
class StopRule:
    """How a process tree is asked to end before it is killed."""

    grace_s: float
    signal: int = signal.SIGTERM
    command: tuple[str, ...] | None = None  # run instead of the signal (container engines)


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One request to an engine's own control endpoints; never reachable by clients."""

    method: str
    path: str
    body: bytes | None = None
    timeout_s: float = 120.0
    refusal: bytes | None = None  # a body that contains this, spaces ignored, means no, whatever the status


@dataclass(frozen=True, slots=True)
class SleepRule:
    """How to put an engine to sleep and to wake it, in order."""

    sleep: tuple[HttpCall, ...]
    wake: tuple[HttpCall, ...]
    is_sleeping: HttpCall
    wake_timeout_s: float


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The engine's own Prometheus names for the figures Gearshift exports under neutral names; None = has none."""

    drafts: str | None = None
    draft_tokens: str | None = None
    accepted_tokens: str | None = None
    accepted_per_position: str | None = None
    prompt_tokens: str | None = None
    generation_tokens: str | None = None
    cached_tokens: str | None = None
    kv_usage: str | None = None
    running: str | None = None
    waiting: str | None = None
    preemptions: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Argv, environment, readiness and stop rule of one start; made by an engine adapter, run by a supervisor."""

    variant: str  # variant id
    argv: tuple[str, ...]
    env: Mapping[str, str]  # the child's whole environment
    endpoint: Endpoint
    served_name: str  # the model name the engine answers to
    log: LogFold  # the parser's initial state
    probe: Probe
    stop: StopRule
    timing: Timing
    health_path: str | None = "/health"
    owns_process: bool = True  # False: what runs outside our tree is verified by port and memory only
    files: Mapping[str, str] = field(default_factory=dict)  # relative to the launch folder, written before the start
    devices: tuple[str, ...] = ()
    metrics: MetricNames = field(default_factory=MetricNames)
    metrics_path: str | None = "/metrics"
    sleep: SleepRule | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # the engine's own key, if it has one


@dataclass(frozen=True, slots=True)
class StopReport:
    """What a verified stop saw, seconds from its begin: the engine's own exit, the port, the memory."""

    exit_s: float
    memory_back_s: float
    total_s: float
    killed: bool  # SIGKILL was needed
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class ReadyReport:
    """What a start took, seconds from spawn."""

    spawn_s: float
    health_s: float  # first good health answer
    probe_s: float  # the probe's own duration
    total_s: float


class Child(Protocol):
    """One engine's process tree under supervision. A stale read of its state may inform, never gate."""

    @property
    def report(self) -> StartReport: ...

    @property
    def pids(self) -> tuple[int, ...]:
        """Living processes of the tree, leader first; empty for an engine outside our tree.

        Looks through /proc, for milliseconds: call it in a thread.
        """
        ...

    @property
    def known_pids(self) -> tuple[int, ...]:
        """The same as of the supervisor's last look, some two seconds ago at most; costs nothing."""
        ...

    @property
    def log_path(self) -> Path: ...

    async def ready(self) -> ReadyReport:
        """Wait until health and probe are good. Raises LoadFailedError with the root cause."""
        ...

    def ended(self) -> Awaitable[Failure]:
        """Resolves when a ready child died or stopped answering its liveness probe; never for an asked stop."""
        ...

    async def stop(self, *, grace_s: float | None = None) -> StopReport:
        """Verified stop, idempotent, allowed in any state. Raises StopIncompleteError naming what is left."""
        ...

    async def sleep(self) -> None: ...

    async def wake(self) -> None:
        """Raises LoadFailedError when no token came within the deadline."""
        ...


class Launcher(Protocol):
    """Starts children: the local supervisor now, a Ray node later, a fake in the scheduler's tests."""

    def free_port(self) -> int: ...

    async def launch(self, spec: LaunchSpec) -> Child:
        """Spawn and return at once; readiness is awaited on the child. Raises LoadFailedError if it cannot spawn."""
        ...
