"""A hung engine is told from a busy one by what its processes do."""

from __future__ import annotations

import itertools

import pytest

from gearshift.supervisor.liveness import Work


@pytest.mark.parametrize(
    ("readings", "worked"),
    [
        pytest.param([1.0, 1.0], False, id="no CPU time"),
        pytest.param([1.0, 9e9], True, id="CPU time"),
        pytest.param([None, None], True, id="nobody can tell"),
        pytest.param([1.0, None], True, id="nobody can tell any more"),
    ],
)
def test_work_is_cpu_time_since_the_last_look(readings: list[float | None], worked: bool) -> None:  # noqa: FBT001 - a table
    work = Work(iter(readings).__next__)
    assert work.since_last_look() is worked


def test_each_look_counts_the_cpu_time_since_the_last_one() -> None:
    readings = itertools.chain([0.0, 9e9], itertools.repeat(9e9))
    work = Work(readings.__next__)
    assert work.since_last_look()
    assert not work.since_last_look()
