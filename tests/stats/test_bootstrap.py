"""Bootstrap intervals cover what they claim, at the level where the variance is."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.stats import bootstrap, estimate, hierarchical_bootstrap, median
from gearshift.stats.estimate import estimate_trials


@settings(max_examples=25)
@given(st.lists(st.floats(0.1, 1e3), min_size=2, max_size=20), st.sampled_from(["bca", "percentile"]))
def test_an_interval_lies_within_the_data(values: list[float], method: str) -> None:
    interval = bootstrap(values, method=method, resamples=200)  # type: ignore[arg-type]  # one of the two literals
    assert min(values) <= interval.low <= interval.high <= max(values)


def test_equal_values_have_an_interval_of_no_width() -> None:
    interval = bootstrap([3.0] * 10)
    assert (interval.low, interval.high) == (3.0, 3.0)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert bootstrap(values, seed=1) == bootstrap(values, seed=1)


def test_bca_covers_the_mean_of_skewed_data_about_as_often_as_it_says() -> None:
    random = Random(5)  # noqa: S311 - reproducible noise
    covered = 0
    for run in range(120):
        values = [random.lognormvariate(0, 0.7) for _ in range(30)]
        interval = bootstrap(values, fmean, resamples=400, seed=run)
        covered += interval.low <= 1.2776 <= interval.high  # exp(0.7^2 / 2)
    assert covered / 120 > 0.85


def test_the_hierarchy_sees_variance_between_trials_that_pooling_would_hide() -> None:
    random = Random(2)  # noqa: S311 - reproducible noise
    trials = [[random.gauss(level, 0.1) for _ in range(50)] for level in (10.0, 11.0, 12.0)]
    pooled = bootstrap([value for trial in trials for value in trial])
    nested = hierarchical_bootstrap([trials])
    assert nested.high - nested.low > 1.5 * (pooled.high - pooled.low)


def test_the_hierarchy_covers_the_truth_over_trials_that_vary() -> None:
    random = Random(3)  # noqa: S311 - reproducible noise
    covered = 0
    for run in range(100):
        trials = []
        for _ in range(6):
            level = random.gauss(10.0, 1.0)
            trials.append([random.gauss(level, 0.3) for _ in range(8)])
        interval = hierarchical_bootstrap([trials], resamples=300, seed=run)
        covered += interval.low <= 10.0 <= interval.high
    assert covered >= 80


def test_boots_are_a_level_of_their_own() -> None:
    steady = [[[10.0, 10.1], [10.0, 10.2]], [[12.0, 12.1], [12.0, 12.2]]]
    interval = hierarchical_bootstrap(steady)
    assert interval.low < 10.2
    assert interval.high > 11.9


def test_a_single_run_has_a_median_and_no_interval() -> None:
    single = estimate([[[1.0, 2.0, 3.0]]])
    assert single is not None
    assert (single.median, single.low, single.high) == (2.0, None, None)


def test_two_trials_have_an_interval_around_their_median() -> None:
    found = estimate_trials([10.0, 12.0])
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.median <= found.high


def test_nothing_measured_is_no_estimate() -> None:
    assert estimate([]) is None
    assert estimate([[[], []]]) is None


def test_too_few_values_are_an_error() -> None:
    with pytest.raises(ValueError, match="needs 2"):
        bootstrap([1.0], median)
    with pytest.raises(ValueError, match="needs 1"):
        hierarchical_bootstrap([[[]]])
