"""The client watches itself and the box while it measures: loop lag, own CPU, and who else used the cores."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gearshift.bench.cores import CoreTimes, read_core_times
from gearshift.stats.percentiles import percentile

_TICK_S = 0.005
_TIMER_S = 0.001  # epoll rounds a wait up to a whole millisecond; that much lateness is no sign of load


@dataclass(frozen=True, slots=True)
class WatchReport:
    """One measured stretch. Shares are of one core: 1.0 is a whole core."""

    wall_s: float
    loop_lag_s: float  # 99th percentile of how late the event loop woke a timer, beyond the timer's own millisecond
    cpu: float  # this process
    foreign_cpu: float | None  # processes that are neither ours nor the engine's; None = not attributable
    cores: int


@dataclass(slots=True)
class Watch:
    """Collects while its `watching` block runs; ``report`` is complete once the block has ended."""

    engine_pids: tuple[int, ...] = ()
    report: WatchReport = field(default_factory=lambda: WatchReport(0.0, 0.0, 0.0, None, os.cpu_count() or 1))
    _lags_s: list[float] = field(default_factory=list)

    async def tick(self) -> None:
        """Measure the loop's lateness until cancelled."""
        while True:
            due = time.perf_counter() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self._lags_s.append(max(0.0, time.perf_counter() - due - _TIMER_S))

    def finish(self, wall_s: float, cpu_s: float, before: CoreTimes, after: CoreTimes) -> None:
        """Turn two readings into the report."""
        self.report = WatchReport(
            wall_s=wall_s,
            loop_lag_s=percentile(self._lags_s, 99) if self._lags_s else 0.0,
            cpu=cpu_s / wall_s if wall_s else 0.0,
            foreign_cpu=after.foreign_since(before, wall_s),
            cores=os.cpu_count() or 1,
        )


@asynccontextmanager
async def watching(engine_pids: tuple[int, ...] = ()) -> AsyncIterator[Watch]:
    """Watch the block. ``engine_pids`` are the roots of the engine's process trees on this box, if it runs here."""
    watch = Watch(engine_pids)
    before, cpu, begin = read_core_times(engine_pids), _own_cpu_s(), time.perf_counter()
    ticker = asyncio.create_task(watch.tick())
    try:
        yield watch
    finally:
        ticker.cancel()
        await asyncio.gather(ticker, return_exceptions=True)
        watch.finish(time.perf_counter() - begin, _own_cpu_s() - cpu, before, read_core_times(engine_pids))


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
