"""Figures that a cell derives from counters alone."""

from __future__ import annotations

from gearshift.bench.cell import CellResult, result_of
from gearshift.bench.counters import Counters, Difference
from gearshift.bench.plan import CellPlan
from gearshift.bench.sample import Sample, Usage
from gearshift.bench.trial import Trial
from gearshift.bench.watch import WatchReport


def counted(counters: Counters) -> CellResult:
    """A cell of one answer whose counters moved by so much."""
    answer = Sample(0.0, 1.0, 200, chunk_s=(0.1, 0.9), usage=Usage(10, 48, 0))
    trial = Trial((answer,), WatchReport(1.0, 0.0, 0.1, None, 2), Difference(counters), None, 0.0)
    return result_of(CellPlan("x"), [trial])


def test_tokens_per_step_counts_steps_without_a_draft_too() -> None:
    cell = counted(Counters(generated_tokens=48, drafts=10, accepted_tokens=20))
    assert cell.acceptance is not None
    assert cell.acceptance.mean_length == 3
    assert cell.tokens_per_step == 48 / 28


def test_drafts_that_were_accepted_beyond_an_answers_end_make_no_step_longer_than_the_mean() -> None:
    """Seen on vLLM 0.32.0: 288 tokens of 73 drafts with 217 accepted, the last ones past ``max_tokens``."""
    assert counted(Counters(generated_tokens=288, drafts=73, accepted_tokens=217)).tokens_per_step == 1 + 217 / 73


def test_prompts_of_a_file_are_as_deep_as_they_are_and_that_is_no_fault() -> None:
    answer = Sample(0.0, 1.0, 200, chunk_s=(0.1, 0.9), usage=Usage(23, 48, 16))
    trial = Trial((answer,), WatchReport(1.0, 0.0, 0.1, None, 2), None, None, 0.0)
    cell = result_of(CellPlan("x", depth=512, output=48, kind="file", file="questions.jsonl"), [trial])
    assert cell.depth == 23
    assert [flag.name for flag in cell.flags] == ["single_run"]


def test_preemptions_are_unknown_where_the_engine_does_not_count_them() -> None:
    assert counted(Counters(generated_tokens=48)).preemptions is None
    assert counted(Counters(generated_tokens=48, preemptions=2)).to_json()["preemptions"] == 2
