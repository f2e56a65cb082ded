"""Arithmetic on figures that users published, by the functions that judge our own measurements."""

from __future__ import annotations

import pytest

from gearshift.stats import invariants
from gearshift.stats.percentiles import median


@pytest.mark.parametrize(
    ("per_position", "length"), [((0.77, 0.49), 2.26), ((0.75, 0.47, 0.27), 2.49)], ids=["R3-03", "R3-04"]
)
def test_published_acceptance_sums_to_its_length(per_position: tuple[float, ...], length: float) -> None:
    assert invariants.acceptance_sums_to_length(per_position, length).ok  # R3-05


def test_a_published_length_that_is_more_than_its_positions_is_named() -> None:
    check = invariants.acceptance_sums_to_length((0.88, 0.78, 0.56), 3.3)  # R3-13
    assert check.ok is False
    assert "3.22" in check.detail


@pytest.mark.parametrize(("tpot_s", "rate"), [(0.012959, 77.17), (0.015463, 64.67)], ids=["R1-07 and R1-08", "R1-09"])
def test_a_published_rate_is_what_its_time_per_token_gives(tpot_s: float, rate: float) -> None:
    check = invariants.latency_is_ttft_plus_decode(e2e_s=0.1 + 511 / rate, ttft_s=0.1, tpot_s=tpot_s, tokens=512)
    assert check.ok


def test_the_published_slow_down_at_depth_follows_from_both_times() -> None:
    assert pytest.approx(0.162, abs=0.0005) == 1 - 12.959 / 15.463  # R1-10


def test_the_published_prefix_saving_follows_from_its_median() -> None:
    cached = median([0.288, 0.282, 0.296, 0.288])
    assert cached == 0.288  # R1-12
    assert 6.437 / cached == pytest.approx(22.35, abs=0.01)  # R1-11, R1-13
