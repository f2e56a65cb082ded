"""Percentiles against their definition."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.stats import median, percentile

VALUES = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50)


@given(VALUES)
def test_the_ends_are_the_extremes_and_the_middle_is_the_median(values: list[float]) -> None:
    assert percentile(values, 0) == min(values)
    assert percentile(values, 100) == max(values)
    assert median(values) == pytest.approx(statistics.median(values))


@given(VALUES, st.floats(0, 100), st.floats(0, 100))
def test_a_higher_level_is_never_a_lower_value(values: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    slack = 1e-9 * max(map(abs, values))  # interpolation rounds
    assert percentile(values, low) <= percentile(values, high) + slack


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_quartiles_are_the_inclusive_ones_of_the_standard_library(values: list[float]) -> None:
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    assert percentile(values, 25) == pytest.approx(first, abs=1e-6)
    assert percentile(values, 75) == pytest.approx(third, abs=1e-6)


def test_no_values_and_no_such_percentile_are_errors() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    with pytest.raises(ValueError, match="outside"):
        percentile([1.0], 101)
