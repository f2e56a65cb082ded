"""Who sends when: a closed loop of so many streams, or an open loop on a schedule."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from random import Random
from typing import Protocol

from gearshift.bench.sample import Call, Sample


class Sender(Protocol):
    """Sends one call and reads its answer: the client, or a fake in tests."""

    async def send(self, call: Call, *, epoch: float, planned_s: float | None = None) -> Sample: ...


async def closed_loop(
    sender: Sender, calls: Sequence[Call], *, concurrency: int, spread_s: float = 0.0
) -> tuple[Sample, ...]:
    """Keep ``concurrency`` requests in flight until ``calls`` are used up; samples in the order of the calls.

    Stream ``i`` starts at ``i / concurrency * spread_s``: a burst would measure the server's accept loop.
    """
    epoch = time.perf_counter()
    waiting = iter(enumerate(calls))
    samples: dict[int, Sample] = {}

    async def stream(delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        for index, call in waiting:
            samples[index] = await sender.send(call, epoch=epoch)

    streams = min(concurrency, len(calls))
    async with asyncio.TaskGroup() as group:
        for number in range(streams):
            group.create_task(stream(number / streams * spread_s))
    return tuple(samples[index] for index in range(len(calls)))


async def open_loop(sender: Sender, calls: Sequence[Call], *, schedule_s: Sequence[float]) -> tuple[Sample, ...]:
    """Send each call at its time, whatever is still in flight; ``planned_s`` of a sample says when it was due."""
    epoch = time.perf_counter()

    async def one(call: Call, due_s: float) -> Sample:
        await asyncio.sleep(max(0.0, epoch + due_s - time.perf_counter()))
        return await sender.send(call, epoch=epoch, planned_s=due_s)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(call, due_s)) for call, due_s in zip(calls, schedule_s, strict=True)]
    return tuple(task.result() for task in tasks)


def poisson_schedule(rate: float, count: int, *, seed: int) -> tuple[float, ...]:
    """Arrival times in seconds of ``count`` requests at ``rate`` a second with exponential gaps; the first at 0."""
    random = Random(seed)  # noqa: S311 - a reproducible schedule, no secret
    due_s = 0.0
    times = []
    for _ in range(count):
        times.append(due_s)
        due_s += random.expovariate(rate)
    return tuple(times)
