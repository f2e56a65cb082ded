"""A planted slowdown is found, a planted nothing is "cannot tell", and order does not fool the verdict."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.stats import Pair, Verdict, compare
from gearshift.stats.student import t_cdf, t_quantile


def simulate(change: float, *, pairs: int, noise: float, drift: float, seed: int) -> Verdict:
    """Decode rates of an ABBA run: noise per trial, a steady drift over the run, B slower or faster by ``change``."""
    random = Random(seed)  # noqa: S311 - reproducible noise
    run: list[Pair] = []
    moment = 0
    for index in range(pairs):
        figures = {}
        for side in "AB" if index % 2 == 0 else "BA":
            level = 100 * (1 + drift * moment) * (1 + change if side == "B" else 1)
            figures[side] = level * random.lognormvariate(0, noise)
            moment += 1
        run.append(Pair(figures["A"], figures["B"], a_first=index % 2 == 0))
    return compare(run, higher_is_better=True)


def test_a_planted_slowdown_of_five_percent_is_found_over_noise_and_drift() -> None:
    verdicts = [simulate(-0.05, pairs=12, noise=0.015, drift=0.001, seed=seed) for seed in range(200)]
    found = [verdict for verdict in verdicts if verdict.result == "worse"]
    assert len(found) >= 195
    assert all(verdict.result != "better" for verdict in verdicts)
    covered = sum(v.low is not None and v.high is not None and v.low <= -0.05 <= v.high for v in verdicts)
    assert covered >= 180


def test_a_planted_nothing_is_cannot_tell_about_nineteen_times_out_of_twenty() -> None:
    verdicts = [simulate(0.0, pairs=12, noise=0.015, drift=0.001, seed=seed) for seed in range(300)]
    undecided = sum(verdict.result == "cannot_tell" for verdict in verdicts)
    assert 0.91 <= undecided / 300 <= 0.99


def test_the_smallest_detectable_difference_is_found_about_four_times_out_of_five() -> None:
    typical = [simulate(0.0, pairs=12, noise=0.02, drift=0.0, seed=seed).smallest_detectable for seed in range(100)]
    size = sorted(value for value in typical if value is not None)[50]
    found = sum(
        simulate(size, pairs=12, noise=0.02, drift=0.0, seed=seed).result == "better" for seed in range(1000, 1200)
    )
    assert 0.65 <= found / 200 <= 0.95


def test_running_second_is_an_effect_of_its_own_and_not_a_difference() -> None:
    random = Random(1)  # noqa: S311 - reproducible noise
    pairs = [
        Pair(
            a=100 * (1.0 if a_first else 1.04) * random.lognormvariate(0, 0.002),
            b=100 * (1.04 if a_first else 1.0) * random.lognormvariate(0, 0.002),
            a_first=a_first,
        )
        for a_first in (True, False) * 4
    ]
    verdict = compare(pairs, higher_is_better=True)
    assert verdict.result == "cannot_tell"
    assert verdict.order_effect == pytest.approx(0.04, abs=0.005)
    assert verdict.smallest_detectable is not None
    assert verdict.smallest_detectable < 0.01


def test_a_lower_time_is_better() -> None:
    pairs = [Pair(1.0, 0.8, a_first=True), Pair(1.02, 0.81, a_first=False), Pair(0.99, 0.8, a_first=True)]
    assert compare(pairs, higher_is_better=False).result == "better"
    assert compare(pairs, higher_is_better=True).result == "worse"


def test_one_pair_gives_a_change_and_no_verdict() -> None:
    verdict = compare([Pair(100, 90, a_first=True)], higher_is_better=True)
    assert verdict.result == "cannot_tell"
    assert verdict.change == pytest.approx(-0.1)
    assert verdict.smallest_detectable is None


def test_figures_that_are_not_positive_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        compare([Pair(0.0, 1.0, a_first=True)], higher_is_better=True)
    with pytest.raises(ValueError, match="at least one pair"):
        compare([], higher_is_better=True)


RATES = st.floats(1.0, 1e4)
PAIRS = st.lists(st.builds(Pair, RATES, RATES, a_first=st.booleans()), min_size=1, max_size=12)


@given(PAIRS)
def test_swapping_the_sides_mirrors_the_verdict(pairs: list[Pair]) -> None:
    there = compare(pairs, higher_is_better=True)
    back = compare([Pair(p.b, p.a, a_first=not p.a_first) for p in pairs], higher_is_better=True)
    mirror = {"better": "worse", "worse": "better", "cannot_tell": "cannot_tell"}
    assert back.result == mirror[there.result]
    assert (1 + back.change) * (1 + there.change) == pytest.approx(1)


@pytest.mark.parametrize(
    ("p", "df", "t"), [(0.975, 1, 12.7062), (0.975, 2, 4.30265), (0.975, 10, 2.22814), (0.8, 5, 0.91954)]
)
def test_quantiles_of_student_are_those_of_the_tables(p: float, df: int, t: float) -> None:
    assert t_quantile(p, df) == pytest.approx(t, abs=1e-4)


@given(st.floats(0.001, 0.999), st.integers(1, 200))
def test_quantile_and_distribution_are_inverse(p: float, df: int) -> None:
    assert t_cdf(t_quantile(p, df), df) == pytest.approx(p, abs=1e-7)


def test_a_quantile_needs_a_probability() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_quantile(1.0, 3)
