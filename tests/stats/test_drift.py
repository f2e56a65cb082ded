"""Outliers, odd first runs and trends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gearshift.stats import first_is_odd, outliers, trend


def test_a_value_far_off_is_named_by_its_place() -> None:
    assert outliers([10.0, 10.1, 9.9, 10.05, 13.0, 9.95]) == (4,)


def test_jitter_of_a_very_quiet_series_is_no_outlier() -> None:
    assert outliers([10.0, 10.0, 10.0, 10.0, 10.001]) == ()


def test_few_values_have_no_outlier() -> None:
    assert outliers([1.0, 1.0, 50.0]) == ()


def test_a_first_run_apart_from_the_rest_is_odd() -> None:
    assert first_is_odd([2132.0, 1820.0, 1815.0, 1826.0])
    assert not first_is_odd([10.0, 10.4, 9.7])
    assert not first_is_odd([10.0, 20.0])


@given(st.floats(0.001, 0.05))
def test_a_steady_rise_is_a_trend_of_its_size(step: float) -> None:
    found = trend([100 * (1 + step * index) for index in range(8)])
    assert found is not None
    assert found.p < 0.01
    assert found.change > 0


def test_a_series_without_direction_has_no_trend() -> None:
    found = trend([10.0, 10.2, 9.9, 10.1, 10.0, 10.05])
    assert found is not None
    assert found.p > 0.3


def test_too_few_values_have_no_trend() -> None:
    assert trend([1.0, 2.0]) is None
    assert trend([]) is None
