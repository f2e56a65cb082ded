"""One variant's engine from launch to verified stop. One task owns the life; a stop ends it whatever it is doing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gearshift.domain.errors import Failure, GearshiftError, LoadFailedError
from gearshift.domain.launch import Child, Launcher, LaunchSpec, ReadyReport, StopReport
from gearshift.domain.leasing import Upstream


@dataclass(frozen=True, slots=True)
class Loaded:
    """A load that succeeded: seconds from the effect to ready, and the engine's own share of them."""

    total_s: float
    ready: ReadyReport | None  # None: woken from sleep
    cold: bool


class Resident:
    """The engine of one variant, or the absence of one. Only control calls it, and only from the loop."""

    def __init__(
        self,
        launcher: Launcher,
        prepare: Callable[[int], Awaitable[LaunchSpec]],
        launched: Callable[[Child], None] = lambda _child: None,
    ) -> None:
        self._launcher = launcher
        self._prepare = prepare  # port -> spec
        self._launched = launched
        self._launching: asyncio.Task[Child] | None = None
        self._work: asyncio.Task[object] | None = None
        self.child: Child | None = None
        self.spec: LaunchSpec | None = None

    @property
    def upstream(self) -> Upstream | None:
        """Where to send requests; None before the first launch."""
        spec = self.spec
        if spec is None:
            return None
        return Upstream(spec.endpoint, spec.served_name, spec.headers, spec.metrics, spec.metrics_path)

    def begin(self, work: Awaitable[object]) -> None:
        """Own the task that carries this resident's present life. There is one at a time: waking ends the watch."""
        if self._work is not None:
            self._work.cancel()
        self._work = asyncio.ensure_future(work)

    async def load(self, *, wake: bool) -> Loaded:
        """Make it ready. Raises LoadFailedError; what it left behind is stopped by the stop that must follow."""
        started = time.monotonic()
        if wake and self.child is not None:
            if await self._woke(self.child):
                return Loaded(time.monotonic() - started, None, cold=False)
            await self.child.stop()
        child = await self._launch()
        report = await child.ready()
        return Loaded(time.monotonic() - started, report, cold=True)

    async def watch(self) -> Failure:
        """Returns the cause once the ready engine dies or stops answering."""
        if self.child is None:
            return Failure("its engine is gone")
        return await self.child.ended()

    async def stop(self, grace_s: float) -> StopReport | None:
        """End it, verified, in any state; None when there was nothing to end. Raises StopIncompleteError."""
        await self._drop_work()
        if self._launching is not None:
            # A spawn that has begun is let finish: what it made must be known to be ended.
            await asyncio.gather(self._launching, return_exceptions=True)
            self._launching = None
        if self.child is None:
            return None
        report = await self.child.stop(grace_s=grace_s)
        self.child = None
        return report

    async def sleep(self) -> None:
        """Put it to sleep. Raises GearshiftError when it does not; it must then be stopped."""
        await self._drop_work()
        if self.child is None:
            raise GearshiftError("there is nothing to put to sleep")
        await self.child.sleep()

    async def _woke(self, child: Child) -> bool:
        try:
            await child.wake()
        except LoadFailedError:
            return False  # a cold start follows
        return True

    async def _launch(self) -> Child:
        self._launching = asyncio.create_task(self._spawn())
        await asyncio.wait({self._launching})
        launching, self._launching = self._launching, None
        return launching.result()

    async def _spawn(self) -> Child:
        self.spec = await self._prepare(self._launcher.free_port())
        self.child = await self._launcher.launch(self.spec)
        self._launched(self.child)
        return self.child

    async def _drop_work(self) -> None:
        work, self._work = self._work, None
        if work is not None and work is not asyncio.current_task() and not work.done():
            work.cancel()
            await asyncio.wait({work})
