"""Whether a ready engine still answers. A hung one is told from a busy one by what its processes do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from gearshift.domain.errors import Failure
from gearshift.domain.variant import Timing
from gearshift.supervisor.health import HealthClient, ProbeResult
from gearshift.supervisor.racing import never

BUSY_CPU_SHARE = 0.02  # an engine that computes feeds its GPU from the CPU; one that hangs does not


class Work:
    """Whether a tree used CPU time since the last look."""

    def __init__(self, cpu_s: Callable[[], float | None]) -> None:
        """``cpu_s``: CPU seconds so far; None for an engine whose processes are not ours to see."""
        self._cpu_s = cpu_s
        self._mark, self._marked_at = cpu_s(), time.monotonic()

    def since_last_look(self) -> bool:
        """True as well when nobody can tell: an engine is not ended on a guess."""
        now, at = self._cpu_s(), time.monotonic()
        known = now is not None and self._mark is not None
        used = (now or 0.0) - (self._mark or 0.0)
        elapsed, self._mark, self._marked_at = at - self._marked_at, now, at
        return not known or used > BUSY_CPU_SHARE * elapsed


class Liveness:
    """Probes a ready engine until it fails twice in a row.

    An idle engine must be healthy and give a token. One with requests in flight (or nobody knows: None) must be
    healthy; it fails for want of a token only when its processes use no CPU time either, because behind a long answer
    a probe queues and times out.
    """

    def __init__(
        self,
        timing: Timing,
        client: HealthClient,
        cpu_s: Callable[[], float | None],
        in_flight: Callable[[], int | None],
    ) -> None:
        self._timing = timing
        self._client = client
        self._cpu_s = cpu_s
        self._in_flight = in_flight
        self._paused = False

    def pause(self) -> None:
        """A sleeping engine gives no token."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    async def watch(self) -> Failure:
        """Returns why the engine counts as hung; never, when probing is switched off."""
        every_s = self._timing.probe_every_s
        if every_s is None:
            await never()
        while True:
            work = Work(self._cpu_s)
            await asyncio.sleep(every_s)
            if self._paused:
                continue
            failure = await self._failing_twice(work)
            if failure and not self._paused:
                return failure

    async def _failing_twice(self, work: Work) -> Failure | None:
        first = await self._ask(work)
        second = first if first.ok else await self._ask(work)
        if second.ok or not second.asked:  # an engine is not ended for what we lack
            return None
        return Failure(f"stopped answering: {second.problem}")

    async def _ask(self, work: Work) -> ProbeResult:
        health = await self._client.health(self._timing.probe_timeout_s)
        if not health.ok or (self._in_flight() != 0 and work.since_last_look()):
            return health
        work.since_last_look()
        token = await self._client.probe(self._timing.probe_timeout_s)
        # A request may have come in between and be what the probe waited for.
        return health if not token.ok and self._in_flight() != 0 and work.since_last_look() else token
