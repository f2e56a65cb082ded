"""The engine's own TTFT and TPOT beside ours, over the same requests."""

from __future__ import annotations

import pytest

from gearshift.bench.accounts import server_first
from gearshift.bench.counters import Counters, Difference
from gearshift.bench.engine_view import engine_view
from gearshift.bench.sample import EngineTimings, Sample, Usage
from gearshift.bench.trial import Trial
from gearshift.bench.watch import WatchReport

WATCH = WatchReport(1.0, 0.0, 0.1, None, 2)
COUNTED = Difference(Counters(ttft_sum_s=0.16, ttft_count=2, tpot_sum_s=0.04, tpot_count=2))


def answer(ttft_s: float, *, timings: EngineTimings | None = None) -> Sample:
    """41 tokens within 0.4 s of the first one."""
    return Sample(0.0, 1.0, 200, chunk_s=(ttft_s, ttft_s + 0.4), usage=Usage(10, 41, 0), timings=timings)


def trial(*samples: Sample, counted: Difference | None = None) -> Trial:
    return Trial(samples, WATCH, counted, None, 0.0)


def test_llama_servers_timings_are_set_against_the_same_answers() -> None:
    timings = EngineTimings(prompt_tokens=10, prompt_s=0.08, tokens=41, decode_s=0.4)
    view = engine_view([trial(answer(0.1, timings=timings), answer(9.0))])
    assert (view.ttft_s, view.client_ttft_s) == (0.08, 0.1)
    assert view.ttft_later_s == pytest.approx(0.02)
    assert view.tpot_ratio == pytest.approx(1)


def test_histograms_are_summed_over_all_trials() -> None:
    view = engine_view(
        [trial(answer(0.1), answer(0.2), counted=COUNTED), trial(answer(0.3), answer(0.4), counted=COUNTED)]
    )
    assert (view.ttft_s, view.tpot_s) == (0.08, 0.02)
    assert view.client_ttft_s == pytest.approx(0.25)
    assert view.ttft_later_s == pytest.approx(0.17)
    assert view.tpot_ratio == pytest.approx(0.5)


def test_a_histogram_that_holds_others_requests_is_not_compared() -> None:
    view = engine_view([trial(answer(0.1), counted=COUNTED)])
    assert view.ttft_s == 0.08
    assert (view.client_ttft_s, view.ttft_later_s, view.tpot_ratio) == (None, None, None)
    assert server_first([trial(answer(0.1), counted=COUNTED)]).ok is None


def test_a_first_token_before_the_servers_is_impossible_and_the_difference_is_told() -> None:
    check = server_first([trial(answer(0.05), answer(0.05), counted=COUNTED)])
    assert check.ok is False
    assert "-30 ms" in check.detail


def test_an_engine_that_says_nothing_has_no_view() -> None:
    assert set(engine_view([trial(answer(0.1))]).to_json().values()) == {None}
