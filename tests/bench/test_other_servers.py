"""Servers that know less than vLLM, or have something before them that gathers their streams."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gearshift.bench.cell import CellResult, result_of
from gearshift.bench.client import TargetError
from gearshift.bench.counters import Counters, Difference
from gearshift.bench.outcome import Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.records import from_record, to_record
from gearshift.bench.rig import Rig
from gearshift.bench.runner import Runner
from gearshift.bench.sample import EngineTimings, Sample, Usage
from gearshift.bench.trial import Trial
from gearshift.bench.truth import Script, serve
from gearshift.bench.validity import Limits
from gearshift.bench.watch import WatchReport
from gearshift.store import Measurements

pytestmark = pytest.mark.anyio
FAST = Script(ttft_s=0.02, step_s=0.002)
PATIENT = Limits(decode_share=1000.0, ttft_share=1000.0, cpu=2.0)
CELL = CellPlan("x", depth=64, output=24, requests=2, trials=1)
QUIET = WatchReport(1.0, 0.0, 0.1, None, 2)


async def measure(script: Script, plan: CellPlan) -> CellResult:
    async with serve(script) as server, Rig(server.url, limits=PATIENT) as rig:
        return await rig.cell(plan)


def names(result: CellResult) -> set[str]:
    return {flag.name for flag in result.flags}


def cell_of(*samples: Sample, plan: CellPlan = CELL, watch: WatchReport = QUIET) -> CellResult:
    return result_of(plan, [Trial(samples, watch, None, None, 0.0)], limits=PATIENT)


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("keys", [("ignore_eos",), ("stream_options",), ("ignore_eos", "stream_options")])
async def test_a_server_is_asked_without_the_keys_that_it_refuses(keys: tuple[str, ...], status: int) -> None:
    result = await measure(replace(FAST, refuses=keys, refusal=status), CELL)

    assert result.valid
    assert result.plan.exact == ("ignore_eos" not in keys)
    flags = {flag.name: flag.detail for flag in result.flags}
    assert flags["keys_refused"] == f"asked without {' and '.join(keys)}, which the server refuses"


async def test_what_a_server_refuses_is_found_out_once() -> None:
    async with serve(replace(FAST, refuses=("stream_options",))) as server, Rig(server.url, limits=PATIENT) as rig:
        await rig.prepare(CELL)
        before = server.engine.tally.requests
        prepared = await rig.prepare(replace(CELL, exact=False))
        assert server.engine.tally.requests == before + 1
        assert prepared.refused == ("stream_options",)
        assert not (await rig.prepare(replace(CELL, dialect="responses"))).refused


async def test_a_key_that_stays_refused_is_told_by_the_first_refusal() -> None:
    with pytest.raises(TargetError, match=r"HTTP 422.*unknown key messages") as caught:
        await measure(replace(FAST, refuses=("messages",)), CELL)
    assert "prompt fits its context" in (caught.value.hint or "")


async def test_a_cell_asked_without_a_refused_key_is_resumed(tmp_path: Path) -> None:
    experiment = ExperimentPlan("x", (CELL,))
    async with serve(replace(FAST, refuses=("ignore_eos",))) as server:
        for requests in (2, 0):
            async with Rig(server.url, limits=PATIENT) as rig:
                runner = Runner(rig, measurements=Measurements(tmp_path / "db"), resume=True)
                await runner.run(experiment, lambda _: Outcome())
                before, measured = server.engine.tally.requests, requests
            assert "keys_refused" in names(runner.done[0])
        # The second run warmed up, which is how it learned what to look for, and measured nothing.
        assert before - measured == 2 + 1 + 1


async def test_answers_that_come_whole_tell_no_first_token() -> None:
    result = await measure(replace(FAST, streams=False), CELL)

    assert not result.valid
    (flag,) = (flag for flag in result.flags if flag.name == "not_streamed")
    assert flag.detail.startswith("2 of 2 answers were held back: one came as 1 event in 1 piece")


def gathered(pieces: int, events: int, *, e2e_s: float = 1.0) -> Sample:
    """An answer of 64 tokens whose events came in so many pieces."""
    stamps = tuple(e2e_s * (1 + number * pieces // events) / pieces for number in range(events))
    return Sample(0.0, e2e_s, 200, chunk_s=stamps, usage=Usage(64, 64, 0))


def test_a_stream_that_was_gathered_on_its_way_is_told_from_one_of_long_steps() -> None:
    assert "not_streamed" in names(cell_of(gathered(4, 64)))
    assert "not_streamed" not in names(cell_of(gathered(16, 64)))
    assert "not_streamed" not in names(cell_of(gathered(4, 4)))  # n-gram drafts: 16 tokens an event
    assert "not_streamed" in names(cell_of(gathered(1, 1)))


def test_a_late_client_is_not_taken_for_a_stream_that_was_gathered() -> None:
    late = replace(QUIET, loop_lag_s=0.1)
    result = result_of(CELL, [Trial((gathered(1, 64),), late, None, None, 0.0)])
    assert "client_overloaded" in names(result)
    assert "not_streamed" not in names(result)


def test_a_gathered_stream_does_not_make_a_client_late() -> None:
    slow = replace(QUIET, loop_lag_s=0.004)
    result = result_of(CELL, [Trial((gathered(1, 64),), slow, None, None, 0.0)])
    assert "client_overloaded" not in names(result)
    assert "not_streamed" in names(result)


def timed(*, cached: int, usage: Usage | None) -> Sample:
    timings = EngineTimings(100 - cached, 0.1, 24, 0.23, cached_tokens=cached)
    stamps = tuple(0.1 + 0.01 * number for number in range(24))
    return Sample(0.0, 0.4, 200, chunk_s=stamps, usage=usage, timings=timings)


@pytest.mark.parametrize("usage", [Usage(100, 24), None])
def test_a_warm_cache_is_seen_by_llama_servers_timings(usage: Usage | None) -> None:
    result = cell_of(timed(cached=60, usage=usage), plan=replace(CELL, depth=100))
    assert result.to_json()["cache_hit_share"] == 0.6
    assert "cache_was_warm" in names(result)
    assert result.prefill_tok_s is not None
    assert result.prefill_tok_s.median == pytest.approx(400)


def test_the_rate_of_prefill_leaves_out_what_the_servers_counters_say_was_cached() -> None:
    """vLLM tells it of each answer only where it was started to."""
    answer = replace(timed(cached=0, usage=Usage(100, 24)), timings=None)
    counted = Difference(Counters(cache_queries=200, cache_hits=150))
    warm = replace(CELL, depth=100, cache="warm")
    result = result_of(warm, [Trial((answer, answer), QUIET, counted, None, 0.0)], limits=PATIENT)
    assert result.prefill_tok_s is not None
    assert result.prefill_tok_s.median == pytest.approx(250)


def test_without_any_word_of_the_cache_only_a_cold_cell_has_a_rate_of_prefill() -> None:
    answer = replace(timed(cached=0, usage=Usage(100, 24)), timings=None)
    assert cell_of(answer, plan=replace(CELL, cache="warm")).prefill_tok_s is None
    cold = cell_of(answer).prefill_tok_s
    assert cold is not None
    assert cold.median == pytest.approx(1000)


def test_an_older_llama_servers_drafts_are_known_by_its_answers() -> None:
    """Before August 2026 its metrics had no counters of speculation."""
    timings = EngineTimings(100, 0.1, 24, 0.23, draft_tokens=20, accepted_tokens=12)
    answer = replace(timed(cached=0, usage=Usage(100, 24)), timings=timings)
    counted = Difference(Counters(generated_tokens=24))
    assert result_of(CELL, [Trial((answer,), QUIET, counted, None, 0.0)]).tokens_per_step == 2


def test_what_comes_behind_the_last_token_is_no_time_of_generation() -> None:
    answer = Sample(0.0, 5.0, 200, chunk_s=(0.5, 1.0), usage=Usage(10, 8, 0))
    rate = cell_of(answer).output_tok_s
    assert rate is not None
    assert rate.median == 8
    failed = Sample(1.0, 1.0, 200, error="broke off", chunk_s=(0.5,))
    assert Trial((answer, failed), QUIET, None, None, 0.0).wall_s == 2


async def test_a_stored_cell_knows_what_was_refused() -> None:
    async with serve(replace(FAST, refuses=("ignore_eos",))) as server, Rig(server.url, limits=PATIENT) as rig:
        result = await rig.cell(CELL)
        record = to_record(result, rig.target)
    assert names(from_record(record, record.trials, PATIENT)) == names(result)
