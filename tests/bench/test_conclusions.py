"""What an experiment says in words goes no further than its intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gearshift.bench.cell import CellResult, NeedleScore, result_of
from gearshift.bench.experiments import ab, concurrency, ladder, prefix, speculation
from gearshift.bench.plan import CellPlan
from gearshift.bench.sample import Sample, Usage
from gearshift.bench.trial import Trial
from gearshift.bench.watch import WatchReport

RESERVED = "; with reservation, since cells are flagged"
QUIET = WatchReport(1.0, 0.0, 0.1, None, 2)


def cell(plan: CellPlan, tok_s: Sequence[float]) -> CellResult:
    """A trial a rate, each of one answer of 101 tokens, evenly spread from its sending on."""
    trials = []
    for rate in tok_s:
        stamps = (1 / rate, 101 / rate)
        answer = Sample(0.0, 101 / rate, 200, chunk_s=stamps, usage=Usage(plan.depth, 101, 0))
        trials.append(Trial((answer,), QUIET, None, None, 0.0))
    return result_of(plan, trials)


@pytest.mark.parametrize(
    ("deep", "said"),
    [
        ((10, 22, 34), "decode 20 tok/s at 100 tokens, 22 at 400: no difference that the intervals can tell"),
        ((9, 10, 11), "decode 20 tok/s at 100 tokens, 10 at 400 (-50.0%)"),
        (
            (10,),
            "decode 20 tok/s at 100 tokens, 10 at 400 (-50.0%); with reservation, since cells are flagged single_run",
        ),
    ],
)
def test_a_ladder_claims_a_cost_only_where_the_intervals_are_apart(deep: Sequence[float], said: str) -> None:
    cells = [cell(CellPlan("ladder", depth=100), (16, 20, 25)), cell(CellPlan("ladder", depth=400), deep)]
    assert ladder.conclude(cells).advice == (said,)


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([(1, (19, 20, 21)), (2, (11, 12, 13))], "more than one stream costs throughput: 20 tok/s at 1, 12 at 2"),
        ([(2, (19, 20, 21)), (4, (11, 12, 13))], "more than 2 streams cost throughput: 20 tok/s at 2, 12 at 4"),
        ([(1, (10, 20, 30)), (2, (11, 18, 31))], "more than one stream adds little: 20 tok/s at 1, 18 at 2"),
        ([(1, (19, 20, 21)), (2, (39, 40, 41))], "total throughput still grows at 2 streams (40 tok/s)"),
        ([(1, (19, 20, 26)), (2, (19, 22, 26))], "cannot tell whether 2 streams bring more than 1: 20 and 22 tok/s"),
    ],
)
def test_streams_that_cost_throughput_are_told_from_those_that_add_little(
    rates: Sequence[tuple[int, Sequence[float]]], said: str
) -> None:
    cells = [cell(CellPlan("concurrency", concurrency=level), tok_s) for level, tok_s in rates]
    (words,) = concurrency.conclude(cells).advice
    assert words.startswith(said)


def test_a_sweep_that_costs_names_the_levels_of_which_it_cannot_tell() -> None:
    rates = {("off", 1): (19, 20, 21), ("2", 1): (9, 10, 11), ("off", 2): (30, 40, 50), ("2", 2): (29, 39, 49)}
    cells = [
        cell(CellPlan("speculation", setting=setting, concurrency=level), tok_s)
        for (setting, level), tok_s in rates.items()
    ]
    (words,) = speculation.conclude(cells).advice
    assert (
        words
        == "2 drafted at 512 tokens: costs at every level measured (0.50x at 1 stream), but cannot tell at 2 streams"
    )


@pytest.mark.parametrize(
    ("drafted", "said"),
    [
        (((39, 40, 41), (29, 30, 31), (9, 10, 11)), "pays up to about 3 streams (clearly up to 2, costs from 4)"),
        (
            ((15, 21, 30), (15, 19, 30), (9, 10, 11)),
            "pays up to about 1 stream (cannot tell that it pays at any, costs from 4)",
        ),
        (((39, 40, 41), (15, 19, 30), (15, 19, 30)), "(clearly up to 1, cannot tell from where it costs)"),
        (((9, 10, 11), (29, 30, 31), (9, 10, 11)), "pays at some levels only (0.50x at 1 stream, 1.50x at 2 streams"),
        (((40,), (30,), (10,)), "pays up to about 3 streams; with reservation"),
    ],
)
def test_a_break_even_is_said_with_what_the_intervals_bear_out(drafted: Sequence[Sequence[float]], said: str) -> None:
    """Off is 20 tok/s at 1, 2 and 4 streams."""
    levels = (1, 2, 4)
    cells = [
        cell(CellPlan("speculation", setting=setting, concurrency=level), tok_s)
        for setting, rates in (("off", ((19, 20, 21),) * 3), ("2", drafted))
        for level, tok_s in zip(levels, rates, strict=True)
    ]
    (words,) = speculation.conclude(cells).advice
    assert said in words


@pytest.mark.parametrize(
    ("cached", "said"),
    [
        ((0.1, 0.1), "first token after 0.1 s cached, 0.405 s cold: 4.05x sooner"),
        ((0.405, 0.4), "first token after 0.403 s cached, 0.405 s cold: no difference that the intervals can tell"),
        (
            (0.8, 0.82),
            "first token after 0.81 s cached, 0.405 s cold: 2x later, so the cache costs more than it saves",
        ),
    ],
)
def test_a_cache_is_said_to_save_only_what_the_intervals_show(cached: Sequence[float], said: str) -> None:
    cells = []
    for setting, ttfts, share in (("cold", (0.4, 0.41), 0), ("cached", cached, 512)):
        answers = [Sample(0.0, 2.0, 200, chunk_s=(ttft, 2.0), usage=Usage(512, 11, share)) for ttft in ttfts]
        trials = [Trial((answer,), QUIET, None, None, 0.0) for answer in answers]
        plan = CellPlan("prefix", setting=setting, output=11, cache="warm" if share else "cold")
        cells.append(result_of(plan, trials))
    assert prefix.conclude(cells).advice == (said,)


def test_recall_is_told_of_a_cell_whose_times_are_spoilt() -> None:
    found = cell(CellPlan("ladder", depth=400), (19, 20))
    late = [replace(trial, watch=replace(QUIET, cpu=0.99)) for trial in found.trials]
    spoilt = result_of(found.plan, late, needle=NeedleScore(3, 1))
    assert not spoilt.valid
    assert ladder.conclude([spoilt]).advice == ("at 400 tokens 1 of 3 needles were found",)


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        ((20, 21, 20, 21), (22, 23, 22, 23), False),
        ((4, 4.1, 27, 28, 29), (4.4, 4.5, 4.6, 30, 31), True),  # the table says 27 against 4.6
        ((20, 20.1, 30, 30.1), (22, 22.1, 33, 33.1), False),
    ],
)
def test_medians_that_say_something_else_than_the_pairs_are_explained(
    a: Sequence[float], b: Sequence[float], *, apart: bool
) -> None:
    cells = [cell(CellPlan("ab", setting=side), rates) for side, rates in (("x", a), ("y", b))]
    words = [text for text in ab.conclude(cells).advice if text.startswith("the medians of the two sides differ by ")]
    assert bool(words) == apart
    assert all("drifted from pair to pair (x from 4 to 29)" in text for text in words)


def busy(found: CellResult) -> CellResult:
    """The cell, judged with another program beside it."""
    trials = [replace(trial, watch=replace(QUIET, foreign_cpu=1.5)) for trial in found.trials]
    return result_of(found.plan, trials)


def test_what_is_drawn_from_flagged_cells_is_said_with_reservation() -> None:
    depths = [cell(CellPlan("ladder", depth=depth), rates) for depth, rates in ((100, (19, 20)), (400, (9, 10)))]
    (words,) = ladder.conclude([depths[0], busy(depths[1])]).advice
    assert words.endswith(f"{RESERVED} busy_cores")
    levels = [cell(CellPlan("concurrency", concurrency=level), (20, 20.1)) for level in (1, 2)]
    (words,) = concurrency.conclude([busy(levels[0]), levels[1]]).advice
    assert words.endswith(f"{RESERVED} busy_cores")
    sides = [cell(CellPlan("speculation", setting=name), rates) for name, rates in (("off", (19, 20)), ("2", (33, 34)))]
    (words,) = speculation.conclude([busy(sides[0]), sides[1]]).advice
    assert f"x at 1 stream){RESERVED} busy_cores" in words
