"""Whether a ready engine still answers. A hung one is told from a busy one by what its processes do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

from gearshift.domain.errors import Failure
from gearshift.domain.variant import Timing
from gearshift.supervisor import processes
from gearshift.supervisor.health import Answer, EngineClient

BUSY_CPU_SHARE = 0.02  # an engine that computes feeds its GPU from the CPU; one that hangs does not


class Liveness:
    """Probes a ready engine until it fails twice in a row.

    An idle engine must be healthy and give a token. One with requests in flight (or nobody knows: None) must be
    healthy; a token is asked of it only when its processes use no CPU time, because behind a long answer the probe
    would queue and time out.
    """

    def __init__(
        self,
        timing: Timing,
        client: EngineClient,
        pids: Callable[[], Collection[int]],
        in_flight: Callable[[], int | None],
    ) -> None:
        self._timing = timing
        self._client = client
        self._pids = pids
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
        while True:
            cpu_s, since = processes.activity(self._pids()).cpu_s, time.monotonic()
            await asyncio.sleep(3600 if every_s is None else every_s)
            if every_s is None or self._paused:
                continue
            used = (processes.activity(self._pids()).cpu_s - cpu_s) / (time.monotonic() - since)
            failure = await self._failing_twice(computing=used > BUSY_CPU_SHARE)
            if failure and not self._paused:
                return failure

    async def _failing_twice(self, *, computing: bool) -> Failure | None:
        first = await self._ask(computing=computing)
        if first.ok:
            return None
        second = await self._ask(computing=computing)
        return None if second.ok else Failure(f"stopped answering: {second.problem}")

    async def _ask(self, *, computing: bool) -> Answer:
        timeout_s = self._timing.probe_timeout_s
        health = await self._client.health(timeout_s)
        if not health.ok or (computing and self._in_flight() != 0):
            return health
        return await self._client.probe(timeout_s)
