"""Either engine's page under one set of names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.counters import Counters, Gauges, Reading, difference, read
from gearshift.bench.truth.counters import Tally, exposition
from gearshift.engines.metrics_page import parse

FIXTURES = Path(__file__).parent / "fixtures"


def tally(steps: int, draft: int) -> Tally:
    found = Tally(requests=3, prompt=100, cached=20, ttft_s=0.3, tpot_s=0.03)
    for step in range(steps):
        found.step(1 + step % (draft + 1), draft)
    return found


@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
def test_both_engines_speak_the_same_names(flavour: str) -> None:
    reading = read(exposition(tally(30, 2), flavour, draft=2))  # type: ignore[arg-type]  # one of the two literals
    assert reading.engine == flavour
    counters = reading.counters
    assert (counters.drafts, counters.draft_tokens, counters.accepted_tokens) == (30, 60, 30)
    assert counters.accepted_at == (20, 10)
    assert counters.generated_tokens == 60


@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
def test_a_difference_has_acceptance_and_cache_share(flavour: str) -> None:
    empty = read(exposition(Tally(), flavour, draft=2))  # type: ignore[arg-type]  # as above
    found = difference(empty, read(exposition(tally(30, 2), flavour, draft=2)))  # type: ignore[arg-type]  # as above
    assert found.acceptance is not None
    assert found.acceptance.per_position == pytest.approx((2 / 3, 1 / 3))
    assert found.acceptance.mean_length == pytest.approx(2.0)
    assert found.cache_hit_share == pytest.approx(0.2)
    assert not found.reset


def test_a_counter_that_fell_means_a_restart() -> None:
    before = Reading(Counters(generated_tokens=100), Gauges(), "vllm")
    after = Reading(Counters(generated_tokens=40), Gauges(), "vllm")
    assert difference(before, after).reset


def test_what_the_engine_does_not_count_stays_unknown() -> None:
    page = "llamacpp:tokens_predicted_total 5\n"
    found = difference(read(page), read(page))
    assert found.counters.requests is None
    assert found.acceptance is None
    assert found.counters.ttft_count is None


def test_six_digits_limit_what_a_difference_can_tell() -> None:
    page = read("llamacpp:tokens_predicted_total 1.23457e+06\n")
    assert difference(page, page).resolution == 10
    small = read("llamacpp:tokens_predicted_total 99999\n")
    assert difference(small, small).resolution == 0


def test_generation_without_drafts_is_silent() -> None:
    before = read("vllm:spec_decode_num_drafts_total 0\nvllm:generation_tokens_total 0\n")
    after = replace(before, counters=replace(before.counters, generated_tokens=100))
    assert difference(before, after).silent_speculation
    assert not difference(before, before).silent_speculation


def test_a_real_scrape_of_vllm_is_read() -> None:
    """Recorded on one H200 with vLLM 0.25.1, MTP with three tokens and synthetic acceptance."""
    reading = read((FIXTURES / "vllm-0.25.1-mtp3.prom.txt").read_text())
    found = difference(Reading(Counters(), Gauges(), "vllm"), reading)
    assert found.acceptance is not None
    assert found.acceptance.per_position == pytest.approx((0.9099, 0.8006, 0.6540), abs=1e-4)
    assert found.acceptance.mean_length == pytest.approx(1 + sum(found.acceptance.per_position))
    assert found.counters.requests == 125
    assert found.counters.tpot_sum_s is not None
    assert found.counters.tpot_sum_s / (found.counters.tpot_count or 0) == pytest.approx(0.007446, abs=1e-6)


def test_labels_may_hold_braces_commas_and_quotes() -> None:
    line = r'm{a="x,y}",b="q\"z"} 2.5'
    (series,) = parse(f"# HELP m\n{line}\nnonsense\nm nan?\n")
    assert series.labels == {"a": "x,y}", "b": r"q\"z"}
    assert series.value == 2.5


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    read(text)
