"""Runs that were published, as if they had been ours: what our cells, experiments and comparisons say of them.

The ids are those of docs/readings.md. A cell is built from the stamps that a published figure implies; every figure
that is asserted is computed from them by what computes ours.
"""

from __future__ import annotations

import pytest

from gearshift.bench.cell import CellResult, NeedleScore, result_of
from gearshift.bench.counters import Counters, Difference
from gearshift.bench.experiments import ladder, prefix, speculation
from gearshift.bench.plan import CellPlan
from gearshift.bench.sample import Sample, Usage
from gearshift.bench.trial import Trial
from gearshift.bench.watch import WatchReport
from gearshift.stats import invariants
from gearshift.stats.compare import Pair, compare

QUIET = WatchReport(1.0, 0.0, 0.1, None, 2)


def answer(ttft_s: float, tpot_s: float, tokens: int, *, prompt: int = 10, chunks: int = 2, cached: int = 0) -> Sample:
    """One whole answer with so long to its first token, and so long a token after it."""
    decode = tpot_s * (tokens - 1)
    stamps = tuple(ttft_s + decode * part / max(chunks - 1, 1) for part in range(chunks))
    return Sample(0.0, stamps[-1], 200, chunk_s=stamps, usage=Usage(prompt, tokens, cached))


def cell(plan: CellPlan, *samples: Sample, counters: Counters | None = None, found: bool = True) -> CellResult:
    counted = Difference(counters) if counters else None
    result = result_of(plan, [Trial(samples, QUIET, counted, None, 0.0)])
    needle = NeedleScore(1, int(found)) if plan.needles else None
    return CellResult(result.plan, result.trials, result.flags, needle)


def rate(tpot_ms: float, tokens: int, requests: int) -> float:
    found = cell(CellPlan("x"), *[answer(0.1, tpot_ms / 1e3, tokens)] * requests).decode_tok_s
    assert found is not None
    return found.median


@pytest.mark.parametrize(
    ("tpot_ms", "tokens", "requests", "tok_s"),
    [(12.959, 512, 5, 77.17), (15.463, 256, 1, 64.67)],
    ids=["R1-07 and R1-08", "R1-09"],
)
def test_a_decode_rate_is_one_over_the_time_per_token(tpot_ms: float, tokens: int, requests: int, tok_s: float) -> None:
    assert rate(tpot_ms, tokens, requests) == pytest.approx(tok_s, abs=0.005)


def test_r1_08_the_peak_lies_above_the_mean_and_is_another_thing() -> None:
    assert invariants.peak_ge_mean(78, rate(12.959, 512, 5)).ok
    assert invariants.peak_ge_mean(77, rate(12.959, 512, 5)).ok is False


def test_r1_10_a_slow_down_between_two_runs_is_told_but_not_proven() -> None:
    verdict = compare([Pair(rate(12.959, 512, 5), rate(15.463, 256, 1), a_first=True)], higher_is_better=True)
    assert verdict.change == pytest.approx(-0.162, abs=0.0005)
    assert verdict.result == "cannot_tell"  # the deep one is a single run


def prefix_ratio(cold_s: float, cached_s: tuple[float, ...]) -> float:
    cold_plan, cached_plan = prefix.plan(CellPlan("", output=1), prefix=36_864, suffix=16, requests=4).cells
    cold = cell(cold_plan, *[answer(cold_s, 0.0, 1, prompt=36_880, chunks=1)] * 4)
    cached = cell(cached_plan, *(answer(ttft, 0.0, 1, prompt=36_880, chunks=1, cached=36_864) for ttft in cached_s))
    findings = prefix.conclude([cold, cached]).findings or {}
    ratio = findings["ttft_ratio"]
    assert isinstance(ratio, float)
    return ratio


def test_r1_11_to_13_the_prefix_cache_saves_what_was_published() -> None:
    assert prefix_ratio(6.437, (0.288, 0.282, 0.296, 0.288)) == pytest.approx(22.35, abs=0.01)
    assert prefix_ratio(6.61, (0.20,) * 4) == pytest.approx(33, abs=0.1)  # the claim that was withdrawn


def test_r1_11_the_cold_prompt_was_read_at_5700_tokens_a_second() -> None:
    found = cell(CellPlan("x", depth=36_880), answer(6.437, 0.0, 1, prompt=36_880, chunks=1)).prefill_tok_s
    assert found is not None
    assert found.median == pytest.approx(5_730, abs=1)


def total(setting: str, streams: int, tok_s: float, *, drafted: int = 0) -> CellResult:
    """A cell of the total throughput that was published: so many streams, a second each."""
    plan = CellPlan("speculation", concurrency=streams, requests=streams, depth=512, setting=setting)
    tokens = round(tok_s * 100 / streams)
    counters = Counters(generated_tokens=tokens * streams, drafts=drafted) if drafted else None
    return cell(plan, *[answer(1.0, 99.0 / (tokens - 1), tokens)] * streams, counters=counters)


def test_r2_03_and_04_the_gain_by_requests_in_flight() -> None:
    """The baseline at 4 is derived (414 / 1.81); the run before gave 250 where this one gave 414."""
    cells = [total("off", 4, 228.7), total("3", 4, 414), total("off", 8, 400), total("3", 8, 420)]
    (found,) = speculation.break_evens(cells)
    assert [gain.ratio for gain in found.gains] == pytest.approx([1.81, 1.05], abs=0.005)
    (earlier,) = speculation.break_evens([total("off", 4, 228.7), total("3", 4, 250)])
    assert earlier.gains[0].ratio == pytest.approx(1.09, abs=0.005)
    assert (found.pays_to, earlier.pays_to) == (None, None)  # single runs carry no rule


def test_r2_03_two_runs_that_differ_so_are_no_verdict() -> None:
    pairs = [Pair(228.7, 414, a_first=True), Pair(228.7, 250, a_first=False), Pair(228.7, 250, a_first=True)]
    assert compare(pairs, higher_is_better=True).result == "cannot_tell"


def test_r2_05_and_17_drafting_stops_paying_between_8_and_12_in_flight() -> None:
    """By how much it lost at 12 and 16 was not published; 3 and 10 percent stand for it."""
    gains = {1: 1.9, 8: 1.05, 12: 0.97, 16: 0.9}
    cells = [total(setting, streams, 1000 * (gain if setting == "3" else 1)) for streams, gain in gains.items()
             for setting in ("off", "3")]  # fmt: skip
    (found,) = speculation.break_evens(cells)
    assert found.concurrency is not None
    assert 8 <= found.concurrency <= 12


def test_r2_06_acceptance_hardly_moves_with_load() -> None:
    drafts = {1: 0.73, 16: 0.71}
    lengths = []
    for streams, share in drafts.items():
        counters = Counters(generated_tokens=5_000, drafts=1_000, draft_tokens=3_000, accepted_tokens=3_000 * share)
        found = cell(CellPlan("x", concurrency=streams), answer(0.1, 0.01, 10), counters=counters).acceptance
        assert found is not None
        lengths.append(found.mean_length)
    assert lengths == pytest.approx([3.19, 3.13])


@pytest.mark.parametrize(
    ("accepted", "length", "holds"),
    [((0.77, 0.49), 2.26, True), ((0.75, 0.47, 0.27), 2.49, True), ((0.88, 0.78, 0.56), 3.3, False)],
    ids=["R3-03", "R3-04", "R3-13"],
)
def test_r3_05_a_length_is_the_sum_of_its_acceptance_or_is_found_out(
    accepted: tuple[float, ...],
    length: float,
    holds: bool,  # noqa: FBT001 - the published outcome
) -> None:
    check = invariants.acceptance_sums_to_length(accepted, length)
    assert check.ok is holds
    assert f"{1 + sum(accepted):.4g}" in check.detail


def test_r3_06_int8_is_ahead_of_q8_0_by_a_sixth_on_two_clocks() -> None:
    assert compare([Pair(44.2, 51.6, a_first=True)], higher_is_better=True).change == pytest.approx(0.17, abs=0.005)


@pytest.mark.parametrize(
    ("before", "after", "change"), [(52, 70, 0.35), (45, 56, 0.24), (46, 40, -0.13), (50, 81, 0.62)]
)
def test_r3_07_to_09_an_a_b_of_one_flag_tells_its_change_and_that_one_pair_proves_nothing(
    before: float, after: float, change: float
) -> None:
    verdict = compare([Pair(before, after, a_first=True)], higher_is_better=True)
    assert verdict.change == pytest.approx(change, abs=0.006)
    assert (verdict.result, verdict.low, verdict.pairs) == ("cannot_tell", None, 1)


def rung(depth: int, tok_s: float, *, found: bool = True, ttft_s: float = 1.0) -> CellResult:
    (plan,) = ladder.plan(CellPlan(""), [depth], context=None, needles=(0.0,)).cells
    return cell(plan, *[answer(ttft_s, 1 / tok_s, 128, prompt=depth)] * 4, found=found)


def test_r3_18_and_19_llama_cpp_s_ladder_loses_a_quarter_and_no_needle() -> None:
    rungs = [
        rung(depth, rate) for depth, rate in ((8_000, 76), (64_000, 68), (120_000, 61), (180_000, 57), (200_000, 56))
    ]
    (told,) = ladder.conclude(rungs).advice
    assert told.startswith("decode 76 tok/s at 8000 tokens, 56 at 200000 (-26.3%)")
    assert told.endswith("flagged single_run")
    lost = ladder.conclude([*rungs, rung(258_946, 55, found=False)]).advice
    assert lost[-1] == "at 258946 tokens 0 of 1 needles were found"


def test_r3_24_a_prefill_that_slows_by_1_4_shows_in_the_rungs_rates() -> None:
    """The rates were not published, only their ratio."""
    shallow, deep = (
        rung(depth, 75, ttft_s=depth / speed).prefill_tok_s for depth, speed in ((8_000, 1400), (262_000, 1000))
    )
    assert shallow is not None
    assert deep is not None
    assert shallow.median / deep.median == pytest.approx(1.4)


@pytest.mark.parametrize(
    ("generated", "drafts", "accepted", "per_step", "mean_length"),
    [(512, 204, 307, 2.50, 2.50), (2048, 690, 1186, 2.38, 2.72)],
    ids=["L 01", "L 04"],
)
def test_tokens_a_step_and_mean_length_differ_where_not_every_step_drafts(
    generated: int, drafts: int, accepted: int, per_step: float, mean_length: float
) -> None:
    counters = Counters(generated_tokens=generated, drafts=drafts, accepted_tokens=accepted)
    found = cell(CellPlan("x"), answer(0.1, 0.02, generated), counters=counters)
    assert found.acceptance is not None
    assert found.acceptance.mean_length == pytest.approx(mean_length, abs=0.006)
    assert found.tokens_per_step == pytest.approx(per_step, abs=0.006)


def test_the_lines_of_both_engines_agree_with_their_positions() -> None:
    assert invariants.acceptance_sums_to_length((0.964, 0.893), 2.86).ok  # vLLM 0.23.1 on a GB10
    assert invariants.acceptance_sums_to_length((0.833, 0.672), 2.50).ok  # llama.cpp b11146


def test_a_chunk_carries_several_tokens_and_the_time_per_token_does_not_mind() -> None:
    """H200: 576 tokens came in 175 chunks with drafts, and in 570 without."""
    few, many = (cell(CellPlan("x"), answer(0.1, 0.0075, 576, chunks=chunks)).tpot_s for chunks in (175, 570))
    assert few is not None
    assert many is not None
    assert few.median == pytest.approx(many.median)


def test_the_time_between_steps_is_not_the_time_per_token() -> None:
    """H200 with drafts: the engine's own gap is 25 ms, a token took 7.4 ms, a step brings 3.36 tokens."""
    assert invariants.itl_over_length_is_tpot(0.0250, 1 + 21_959 / 9_287, 0.0074).ok
    assert invariants.itl_over_length_is_tpot(0.0250, None, 0.0074).ok is False


def test_drafts_beyond_an_answer_s_end_are_counted_and_not_delivered() -> None:
    """H200: 125 first tokens, 9,287 drafts and 21,959 accepted make 171 tokens more than were generated."""
    counters = Counters(generated_tokens=31_200, drafts=9_287, accepted_tokens=21_959, accepted_at=(8450, 7435, 6074))
    found = cell(CellPlan("x"), answer(0.1, 0.0074, 31_200), counters=counters)
    assert found.acceptance is not None
    assert found.acceptance.mean_length == pytest.approx(3.364, abs=0.001)
    assert found.tokens_per_step == pytest.approx(found.acceptance.mean_length)


def test_the_h200_sweep_gains_1_6_where_it_counts_and_its_odd_point_breaks_the_curve() -> None:
    """The cell at 8 was tainted by a stall in its first wave; it is what makes a break-even appear at all."""
    off = {1: 90.98, 8: 644.42, 16: 1209.88, 32: 1912.97}
    on = {1: 214.23, 8: 549.11, 16: 1896.13, 32: 3057.99}
    cells = [total(name, load, tok_s) for name, rates in (("off", off), ("3", on)) for load, tok_s in rates.items()]
    (found,) = speculation.break_evens(cells)
    assert [gain.ratio for gain in found.gains] == pytest.approx([2.35, 0.85, 1.57, 1.60], abs=0.01)
    sound = [gain_cell for gain_cell in cells if gain_cell.plan.concurrency != 8]
    (without,) = speculation.break_evens(sound)
    assert (found.concurrency is None, without.concurrency is None) == (False, True)


@pytest.mark.parametrize(
    ("depth", "off_ms", "on_ms", "ratio"),
    [(2_000, 10.534, 4.280, 2.46), (32_000, 11.086, 4.639, 2.39), (60_000, 11.497, 4.752, 2.42)],
)
def test_the_h200_decodes_2_4_times_as_fast_with_drafts_at_every_depth(
    depth: int, off_ms: float, on_ms: float, ratio: float
) -> None:
    assert rate(on_ms, 192, 3) / rate(off_ms, 192, 3) == pytest.approx(ratio, abs=0.006), depth


def test_answers_of_another_length_are_another_cell() -> None:
    """qwen38-mtp PR 5: drafts lost 9 percent at 400 generated tokens and gained 60 at 4,096."""
    short, long = (CellPlan("speculation", output=output).key({}) for output in (400, 4096))
    assert short != long
