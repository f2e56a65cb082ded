"""Each experiment on truth servers: what is planted is found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gearshift import __version__
from gearshift.bench.experiments import ab, concurrency, ladder, prefix, speculation
from gearshift.bench.outcome import ExperimentResult, Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.rig import Rig
from gearshift.bench.runner import Runner, RunProgress
from gearshift.bench.truth import Script, serve
from gearshift.bench.validity import Limits
from gearshift.store import Measurements, open_store

pytestmark = pytest.mark.anyio
FAST = Script(ttft_s=0.02, step_s=0.004)
# The suite shares its cores with others; that a late client is flagged is tested with numbers in test_validity.
PATIENT = Limits(decode_share=1000.0, ttft_share=1000.0, cpu=2.0)
BASE = CellPlan("", depth=64, output=12, requests=2, trials=2)


@pytest.fixture
def measurements(tmp_path: Path) -> Measurements:
    return open_store(tmp_path / "gearshift.db").measurements


async def test_concurrency_finds_where_more_streams_stop_paying() -> None:
    # With slope 3 every further stream slows all others by more than it adds, on a busy box too.
    async with (
        serve(replace(FAST, ttft_s=0.005, slope=3.0)) as server,
        Rig(server.url, limits=PATIENT) as rig,
    ):
        plan = concurrency.plan(replace(BASE, trials=1), [4, 1, 8])
        result = await Runner(rig).run(plan, concurrency.conclude)
    assert [cell.plan.concurrency for cell in result.cells] == [1, 4, 8]
    assert [cell.plan.requests for cell in result.cells] == [4, 4, 8]
    assert result.outcome.advice[0].startswith("more than one stream costs throughput: ")


async def test_the_ladder_shows_what_depth_costs_and_where_recall_fails() -> None:
    async with (
        serve(replace(FAST, prefill_tok_s=8_000, recall=False)) as server,
        Rig(server.url, limits=PATIENT) as rig,
    ):
        plan = ladder.plan(BASE, [64, 1000], context=rig.target.context, needles=(0.5,))
        result = await Runner(rig).run(plan, ladder.conclude)
    shallow, deep = (cell.ttft_s for cell in result.cells)
    assert shallow is not None
    assert deep is not None
    assert deep.median > shallow.median + 0.5 * 936 / 8_000
    assert result.outcome.advice[0].startswith("decode")
    assert result.outcome.advice[1:] == (
        "at 64 tokens 0 of 4 needles were found",
        "at 1000 tokens 0 of 4 needles were found",
    )


def test_a_ladder_ends_at_the_context() -> None:
    plan = ladder.plan(BASE, [1000, 4000, 8000], context=4096)
    assert [cell.depth for cell in plan.cells] == [1000, 4096 - 12 - 96]


async def test_prefix_reports_the_saving_of_a_cache_that_works() -> None:
    script = replace(FAST, cache=True, prefill_tok_s=10_000)
    async with serve(script) as server, Rig(server.url, limits=PATIENT) as rig:
        result = await Runner(rig).run(prefix.plan(BASE, prefix=800, suffix=64, requests=2), prefix.conclude)
    assert result.outcome.findings is not None
    ratio = result.outcome.findings["ttft_ratio"]
    assert isinstance(ratio, float)
    assert ratio > 1.5
    assert "sooner" in result.outcome.advice[0]


async def test_prefix_reports_no_saving_where_nothing_was_cached() -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        result = await Runner(rig).run(prefix.plan(BASE, prefix=200, suffix=64, requests=2), prefix.conclude)
    assert result.outcome.advice[0].startswith("no saving to report")


async def test_speculation_finds_its_break_even() -> None:
    """Two tokens a step that costs one step alone, and more with each stream: pays at one, costs at eight."""
    off, on = replace(FAST, slope=0.05), replace(FAST, slope=1.0, draft=1, tokens_per_chunk=(2,))
    base = replace(BASE, output=16, trials=1)
    async with AsyncExitStack() as stack:
        rigs = {}
        for name, script in (("off", off), ("mtp 1", on)):
            server = await stack.enter_async_context(serve(script))
            rigs[name] = await stack.enter_async_context(Rig(server.url, limits=PATIENT))
        plan = speculation.plan([replace(base, setting=name) for name in rigs], [1, 8], [64])
        result = await Runner(rigs["off"], arms=rigs).run(plan, speculation.conclude)
    (found,) = speculation.break_evens(result.cells)
    assert found.concurrency is not None
    assert 1 < found.concurrency < 8
    assert result.outcome.advice[0].startswith("mtp 1 at 64 tokens: pays up to about")


async def test_a_drafter_that_never_drafts_has_no_break_even() -> None:
    async with (
        serve(FAST) as plain,
        serve(replace(FAST, draft=2)) as silent,
        Rig(plain.url, limits=PATIENT) as off,
        Rig(silent.url, limits=PATIENT) as on,
    ):
        drafting = replace(BASE, setting="2", extra={"truth": {"draft": 0}})
        plan = speculation.plan([replace(BASE, setting="off"), drafting], [1], [64])
        result = await Runner(off, arms={"off": off, "2": on}).run(plan, speculation.conclude)
    assert result.outcome.findings is not None
    assert result.outcome.findings["break_even"] == []
    assert result.outcome.advice == ("2 drafted at 64 tokens: no ratio, since nothing was drafted",)


async def ab_of(slowdown: float, *, pairs: int) -> ExperimentResult:
    async with AsyncExitStack() as stack:
        rigs = {}
        for name, factor in (("a", 1.0), ("b", 1 + slowdown)):
            server = await stack.enter_async_context(serve(replace(FAST, step_s=0.01 * factor)))
            rigs[name] = await stack.enter_async_context(Rig(server.url, limits=PATIENT))
        side = replace(BASE, output=16, requests=1)
        plan = ab.plan(replace(side, setting="a"), replace(side, setting="b"), pairs=pairs)
        return await ab.run(Runner(rigs["a"], arms=rigs), plan)


async def test_a_planted_slowdown_is_found() -> None:
    result = await ab_of(3.0, pairs=5)  # large, because the suite shares its cores; benchmarks/truth finds 5 %
    verdict = result.outcome.verdict
    assert verdict is not None
    assert verdict.result == "worse"
    assert verdict.change < -0.3


async def test_a_verdict_says_that_boots_were_not_varied() -> None:
    result = await ab_of(0.0, pairs=2)
    assert result.outcome.verdict is not None
    assert "one engine start a side" in result.outcome.advice[0]


class NewBootEachTime:
    """Every change of side starts its engine anew."""

    def __init__(self) -> None:
        self.boots = 0
        self.side = ""

    async def to(self, plan: CellPlan) -> int:
        if plan.setting != self.side:
            self.side = plan.setting
            self.boots += 1
        return self.boots


async def test_a_side_is_warmed_up_again_after_each_start_and_the_caveat_about_starts_is_gone() -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        switch = NewBootEachTime()
        sides = [replace(BASE, setting=name, output=4, requests=1) for name in "ab"]
        result = await ab.run(Runner(rig, switch=switch), ab.plan(*sides, pairs=4))
        requests = server.engine.tally.requests
    measured = sum(len(trial.samples) for cell in result.cells for trial in cell.trials)
    assert requests - measured == switch.boots
    assert not any("engine start" in words for words in result.outcome.advice)
    assert len({trial.boot for cell in result.cells for trial in cell.trials}) > 2


async def test_a_stored_comparison_is_resumed_whole_and_one_of_two_runs_is_not(measurements: Measurements) -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        plan = ab.plan(*(replace(BASE, setting=name, output=4, requests=1) for name in "ab"), pairs=2)
        runner = Runner(rig, measurements=measurements, resume=True)
        first = await ab.run(runner, plan)
        served = server.engine.tally.requests
        again = await ab.run(runner, plan)
        assert server.engine.tally.requests == served
        assert [cell.tpot_s for cell in again.cells] == [cell.tpot_s for cell in first.cells]

        await Runner(rig, measurements=measurements).run(replace(plan, cells=plan.cells[:1]), concurrency.conclude)
        await ab.run(runner, plan)
    assert server.engine.tally.requests > served + 3


def test_sides_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="both sides"):
        ab.plan(replace(BASE, setting="x"), replace(BASE, setting="x"))


async def test_cells_are_stored_as_they_are_done_and_come_back_the_same(measurements: Measurements) -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        plan = concurrency.plan(BASE, [1, 2])
        first = await Runner(rig, measurements=measurements).run(plan, concurrency.conclude)
        runner = Runner(rig, measurements=measurements, resume=True)
        served = server.engine.tally.requests
        again = await runner.run(plan, concurrency.conclude)
        assert server.engine.tally.requests == served  # nothing was measured twice

    assert [cell.to_json() for cell in again.cells] == [cell.to_json() for cell in first.cells]
    listed = measurements.experiments()
    # The second record is as whole as the first: whoever reports it needs no other.
    assert [(found.state, found.cell_count) for found in listed] == [("done", 2), ("done", 2)]
    stored = measurements.experiment(listed[0].id)
    assert [cell.record.figures for cell in stored.cells] == [cell.to_json() for cell in first.cells]


async def test_a_changed_plan_is_another_cell(measurements: Measurements) -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        runner = Runner(rig, measurements=measurements, resume=True)
        await runner.run(concurrency.plan(BASE, [1]), concurrency.conclude)
        served = server.engine.tally.requests
        await runner.run(concurrency.plan(replace(BASE, output=13), [1]), concurrency.conclude)
        assert server.engine.tally.requests > served


async def test_an_interruption_keeps_what_is_done(measurements: Measurements) -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        second = asyncio.Event()

        def watch(progress: RunProgress) -> None:
            if progress.done == 1:
                second.set()

        runner = Runner(rig, measurements=measurements, progress=watch)
        task = asyncio.create_task(runner.run(concurrency.plan(BASE, [1, 2, 4]), concurrency.conclude))
        async with asyncio.timeout(10):
            await second.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert [cell.plan.concurrency for cell in runner.done] == [1]
    (stored,) = measurements.experiments()
    assert (stored.state, stored.cell_count) == ("interrupted", 1)


async def test_an_interrupted_comparison_keeps_its_whole_pairs(measurements: Measurements) -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        runner = Runner(rig, measurements=measurements, progress=lambda _: next(rounds))
        sides = [replace(BASE, setting=name, requests=1) for name in "ab"]

        def stop_in_the_third() -> Iterator[None]:
            yield None
            yield None
            task.cancel()
            yield None

        rounds = stop_in_the_third()
        task = asyncio.create_task(ab.run(runner, ab.plan(*sides, pairs=6)))
        with pytest.raises(asyncio.CancelledError):
            await task

    assert [len(cell.trials) for cell in runner.done] == [2, 2]


async def test_a_store_that_fails_half_way_costs_the_record_and_not_the_measurement(tmp_path: Path) -> None:
    database = tmp_path / "gearshift.db"
    measurements = open_store(database).measurements

    def spoil(progress: RunProgress) -> None:
        if progress.done == 1:
            database.write_bytes(b"no database any more" * 500)

    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        runner = Runner(rig, measurements=measurements, progress=spoil)
        result = await runner.run(concurrency.plan(BASE, [1, 2]), concurrency.conclude)
    assert len(result.cells) == 2
    assert not result.interrupted
    assert result.outcome.advice[-1].startswith("not everything is stored")


async def test_what_a_budget_left_out_stands_in_the_result() -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        left_out = (replace(BASE, depth=900), replace(BASE, depth=800, concurrency=3, setting="2"))
        plan = ExperimentPlan("x", (replace(BASE, trials=1, requests=1),), left_out=left_out)
        result = await Runner(rig).run(plan, lambda _: Outcome(advice=("words",)))
    said = "left out, too long for the budget: 900 tokens deep, 1 stream; 2, 800 tokens deep, 3 streams"
    assert result.outcome.advice == ("words", said)


async def test_progress_tells_the_time_left_once_a_cell_is_done() -> None:
    seen: list[RunProgress] = []
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        await Runner(rig, progress=seen.append).run(concurrency.plan(BASE, [1, 2]), concurrency.conclude)
    assert [progress.done for progress in seen] == [0, 1, 2]
    assert seen[0].left_s is None
    assert seen[1].left_s is not None
    assert seen[-1].left_s == 0


async def test_cells_that_were_stored_before_tell_nothing_of_the_time_left(measurements: Measurements) -> None:
    seen: list[RunProgress] = []
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        await Runner(rig, measurements=measurements).run(concurrency.plan(BASE, [1]), concurrency.conclude)
        runner = Runner(rig, measurements=measurements, resume=True, progress=seen.append)
        await runner.run(concurrency.plan(BASE, [1, 2, 4]), concurrency.conclude)
    assert [progress.left_s is None for progress in seen] == [True, True, False, False]


async def test_a_comparison_tells_its_pairs_and_the_time_left() -> None:
    seen: list[RunProgress] = []
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        sides = [replace(BASE, setting=name, requests=1) for name in "ab"]
        await ab.run(Runner(rig, progress=seen.append), ab.plan(*sides, pairs=3))
    assert [(progress.done, progress.total) for progress in seen[:-1]] == [(0, 3), (1, 3), (2, 3)]
    assert [progress.left_s is None for progress in seen[:-1]] == [True, False, False]


async def test_the_document_has_the_keys_of_the_contract() -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        result = await Runner(rig).run(concurrency.plan(BASE, [1]), concurrency.conclude)
    document = result.to_json()
    assert {"experiment", "tool_version", "target", "cells", "verdict", "advice"} <= document.keys()
    assert document["tool_version"] == __version__
    (cell,) = (found.to_json() for found in result.cells)
    assert {
        "concurrency", "depth", "setting", "trials", "ttft_s", "tpot_s", "decode_tok_s", "prefill_tok_s",
        "output_tok_s", "acceptance", "tokens_per_step", "cache_hit_share", "kv_use", "needle", "tokens", "client",
        "valid", "flags",
    } <= cell.keys()  # fmt: skip
