"""A launcher without processes: children that become ready, fail, die and stop when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gearshift.domain.errors import Failure, LoadFailedError, StopIncompleteError
from gearshift.domain.launch import Child, LaunchSpec, ReadyReport, StopReport
from gearshift.domain.startup import StartReport


@dataclass
class Script:
    """How the children of one variant behave."""

    failure: Failure | None = None  # a load fails with it
    manual: bool = False  # ready only once `release` is called
    leaves: str | None = None  # a stop leaves this behind
    wakes: bool = True
    asleep: Callable[[], None] = lambda: None  # called as it falls asleep
    stop_gate: asyncio.Event | None = None  # a stop waits for it


@dataclass
class FakeChild:
    spec: LaunchSpec
    script: Script
    log_path: Path = Path("/dev/null")
    pids: tuple[int, ...] = ()
    report: StartReport = field(default_factory=StartReport)
    calls: list[str] = field(default_factory=list)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)
    _death: asyncio.Future[Failure] | None = None

    @property
    def known_pids(self) -> tuple[int, ...]:
        return self.pids

    def release(self) -> None:
        self._ready.set()

    def die(self, cause: str = "it died") -> None:
        self.death().set_result(Failure(cause))

    def death(self) -> asyncio.Future[Failure]:
        if self._death is None:
            self._death = asyncio.get_running_loop().create_future()
        return self._death

    async def ready(self) -> ReadyReport:
        self.calls.append("ready")
        if self.script.failure:
            raise LoadFailedError(self.script.failure.cause, failure=self.script.failure)
        if self.script.manual:
            await self._ready.wait()
        return ReadyReport(0.0, 0.0, 0.0, 0.0)

    def ended(self) -> asyncio.Future[Failure]:
        return asyncio.shield(self.death())

    async def stop(self, *, grace_s: float | None = None) -> StopReport:
        self.calls.append(f"stop {grace_s}")
        if self.script.stop_gate:
            await self.script.stop_gate.wait()
        if self.script.leaves:
            raise StopIncompleteError(self.script.leaves)
        return StopReport(0.0, 0.0, 0.0, killed=False, exit_code=0)

    async def sleep(self) -> None:
        self.calls.append("sleep")
        self.script.asleep()

    async def wake(self) -> None:
        self.calls.append("wake")
        if not self.script.wakes:
            raise LoadFailedError("no token came", failure=Failure("no token came"))


class FakeLauncher:
    """Remembers every child in order of launch; `scripts` say how the next child of a variant behaves."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.children: list[FakeChild] = []
        self._port = 40000

    def free_port(self) -> int:
        self._port += 1
        return self._port

    async def launch(self, spec: LaunchSpec) -> Child:
        child = FakeChild(spec, self.scripts.setdefault(spec.variant, Script()))
        self.children.append(child)
        return child

    def child(self, variant: str) -> FakeChild:
        """The newest child of a variant."""
        return next(child for child in reversed(self.children) if child.spec.variant == variant)

    @property
    def launched(self) -> list[str]:
        return [child.spec.variant for child in self.children]
