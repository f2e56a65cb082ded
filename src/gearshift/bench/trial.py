"""One trial: requests sent, counters read around them, the client watched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gearshift.bench.client import Client
from gearshift.bench.counters import Difference, Reading, difference, read
from gearshift.bench.gpus import GpuReport, watching_gpus
from gearshift.bench.load import closed_loop, open_loop
from gearshift.bench.sample import Call, Sample
from gearshift.bench.target import Target
from gearshift.bench.watch import WatchReport, watching
from gearshift.domain.telemetry import Telemetry
from gearshift.stats import median

_SETTLE_S = 2.0  # counters follow the stream's end: llama-server's when the slot is released, vLLM's by a step
_IDLE_S = 0.5  # a server that is still busy after this has other traffic, which the counters will show
_POLL_S = 0.02
_GAUGE_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """How a trial's calls are sent: a closed loop of ``concurrency``, or on a schedule when there is one."""

    concurrency: int
    spread_s: float = 0.0
    schedule_s: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One repeat. ``boot`` numbers the engine starts of the experiment; ``begun`` is unix time."""

    samples: tuple[Sample, ...]
    watch: WatchReport
    counted: Difference | None  # None = the server shows no counters
    kv_use: float | None  # highest share of the KV pool seen
    begun: float
    boot: int = 0
    silent_speculation: bool = False  # a drafter is configured, tokens were generated, nothing was drafted
    gpus: tuple[GpuReport, ...] = ()
    attempts: int = 1  # more where this client was late in an earlier one, which was thrown away
    refused: tuple[str, ...] = ()  # keys of a request that the server does not take, so that it was asked without them
    fitted: float | None = None  # the median prompt by the server's tokenizer, template not counted; None = not asked

    @property
    def good(self) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.samples if sample.ok)

    @property
    def wall_s(self) -> float:
        """From the first sending to the last token; of a request that failed to its end, since it took up the server.

        What comes behind an answer's last token, usage and end mark, is no time of generation.
        """
        if not self.samples:
            return 0.0
        ends = (sample.started_s + (sample.chunk_s[-1] if sample.ok else sample.ended_s) for sample in self.samples)
        return max(ends) - min(sample.started_s for sample in self.samples)

    @property
    def output_tokens(self) -> int | None:
        """Generated tokens as the server counts them; None when a good answer came without a count."""
        counts = [sample.tokens for sample in self.good]
        return None if None in counts else sum(count for count in counts if count is not None)


@dataclass(slots=True)
class _Peak:
    kv_use: float | None = field(default=None)


async def run_trial(
    client: Client,
    target: Target,
    calls: Sequence[Call],
    load: Load,
    *,
    boot: int = 0,
    telemetry: Telemetry | None = None,
) -> Trial:
    """Send ``calls`` and collect everything. Raises TargetError when the server's pages cannot be read any more."""
    before = await _idle_reading(client, target)
    begun = time.time()
    async with watching_gpus(telemetry) as gpus, watching(target.pids) as watch, _peak_gauges(client, target) as peak:
        if load.schedule_s is not None:
            samples = await open_loop(client, calls, schedule_s=load.schedule_s)
        else:
            samples = await closed_loop(client, calls, concurrency=load.concurrency, spread_s=load.spread_s)
    counted = None
    if before is not None:
        counted = await _settled(client, target, before, samples)
    silent = bool(target.speculative and counted is not None and counted.silent_speculation)
    lengths = [call.prompt_tokens for call in calls if call.prompt_tokens is not None]
    fitted = median(lengths) if lengths else None
    return Trial(samples, watch.report, counted, peak.kv_use, begun, boot, silent, gpus.reports, fitted=fitted)


async def _reading(client: Client, target: Target) -> Reading | None:
    page = await client.get_text("/metrics") if target.metrics else None
    return read(page) if page is not None else None


async def _idle_reading(client: Client, target: Target) -> Reading | None:
    """Counters once the server is idle: what a warm-up still adds would look like somebody else's traffic."""
    deadline = time.monotonic() + _IDLE_S
    while True:
        found = await _reading(client, target)
        if found is None or not found.gauges.running or time.monotonic() > deadline:
            return found
        await asyncio.sleep(_POLL_S)


async def _settled(client: Client, target: Target, before: Reading, samples: Sequence[Sample]) -> Difference | None:
    """The difference once the server has counted what we received, or what it shows at the deadline."""
    ours = sum(sample.tokens or 0 for sample in samples)
    deadline = time.monotonic() + _SETTLE_S
    while True:
        after = await _reading(client, target)
        if after is None:
            return None
        found = difference(before, after)
        counted = (found.counters.generated_tokens or 0) + found.resolution
        if found.reset or (counted >= ours and not after.gauges.running) or time.monotonic() > deadline:
            return found
        await asyncio.sleep(_POLL_S)


@asynccontextmanager
async def _peak_gauges(client: Client, target: Target) -> AsyncIterator[_Peak]:
    """The highest KV use over the block. vLLM only: llama-server has no such gauge, and reading costs it time."""
    peak = _Peak()
    if target.engine != "vllm" or not target.metrics:
        yield peak
        return
    task = asyncio.create_task(_watch_gauges(client, target, peak))
    try:
        yield peak
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _watch_gauges(client: Client, target: Target, peak: _Peak) -> None:
    while True:
        reading = await _reading(client, target)
        if reading is not None and reading.gauges.kv_use is not None:
            peak.kv_use = max(peak.kv_use or 0.0, reading.gauges.kv_use)
        await asyncio.sleep(_GAUGE_EVERY_S)
