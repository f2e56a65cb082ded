"""Closed and open loops against a sender that records who was in flight."""

from __future__ import annotations

import asyncio
import time

import pytest

from gearshift.bench.load import closed_loop, open_loop, poisson_schedule
from gearshift.bench.sample import Call, Sample


class RecordingSender:
    """Answers each call after a moment and remembers the most that were in flight."""

    def __init__(self, answer_s: float) -> None:
        self.answer_s = answer_s
        self.in_flight = 0
        self.most = 0
        self.order: list[str] = []

    async def send(self, call: Call, *, epoch: float, planned_s: float | None = None) -> Sample:
        started = time.perf_counter()
        self.order.append(call.label)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        await asyncio.sleep(self.answer_s)
        self.in_flight -= 1
        return Sample(started_s=started - epoch, ended_s=self.answer_s, planned_s=planned_s, text=call.label)


def calls(count: int) -> list[Call]:
    return [Call("/v1/completions", b"{}", label=str(number)) for number in range(count)]


@pytest.mark.anyio
async def test_a_closed_loop_keeps_its_streams_busy_and_answers_in_the_order_of_calls() -> None:
    sender = RecordingSender(0.002)
    samples = await closed_loop(sender, calls(10), concurrency=3)
    assert sender.most == 3
    assert [sample.text for sample in samples] == [str(number) for number in range(10)]


@pytest.mark.anyio
async def test_fewer_calls_than_streams_start_once_each() -> None:
    sender = RecordingSender(0.002)
    assert len(await closed_loop(sender, calls(2), concurrency=8)) == 2
    assert sender.most == 2


@pytest.mark.anyio
async def test_streams_of_a_closed_loop_start_spread() -> None:
    samples = await closed_loop(RecordingSender(0.2), calls(4), concurrency=4, spread_s=0.04)
    assert all(sample.started_s >= number * 0.01 for number, sample in enumerate(samples))


@pytest.mark.anyio
async def test_an_open_loop_sends_on_time_whatever_is_in_flight() -> None:
    sender = RecordingSender(0.05)
    samples = await open_loop(sender, calls(3), schedule_s=(0.0, 0.01, 0.02))
    assert sender.most == 3
    assert [sample.planned_s for sample in samples] == [0.0, 0.01, 0.02]
    assert all(sample.planned_s is not None and sample.started_s >= sample.planned_s for sample in samples)


def test_a_poisson_schedule_has_the_asked_rate_and_is_reproducible() -> None:
    times = poisson_schedule(50.0, 5000, seed=1)
    assert times == poisson_schedule(50.0, 5000, seed=1)
    assert times[0] == 0.0
    assert list(times) == sorted(times)
    assert 4999 / times[-1] == pytest.approx(50.0, rel=0.05)
