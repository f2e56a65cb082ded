"""How far out a tail is told depends on how many requests there were."""

from __future__ import annotations

import pytest

from gearshift.bench.sample import Sample, Usage
from gearshift.bench.tail import tail


def answers(count: int) -> list[Sample]:
    """TTFT of 10, 20, 30, ... ms and 10 ms a token; every second chunk gap is twice the other."""
    return [
        Sample(0.0, 1.0, 200, chunk_s=(first, first + 0.02, first + 0.06), usage=Usage(10, 7, 0))
        for first in (0.01 * number for number in range(1, count + 1))
    ]


@pytest.mark.parametrize(("count", "p90", "p99"), [(9, False, False), (10, True, False), (100, True, True)])
def test_a_percentile_is_told_only_where_a_value_lies_beyond_it(count: int, *, p90: bool, p99: bool) -> None:
    found = tail(answers(count))["ttft_s"]
    assert found is not None
    assert (found["p90"] is not None, found["p99"] is not None) == (p90, p99)
    assert found["max"] == pytest.approx(0.01 * count)


def test_the_longest_gap_is_of_all_requests() -> None:
    found = tail(answers(5))
    assert found["chunk_gap_s"] == {"p90": pytest.approx(0.04), "p99": None, "max": pytest.approx(0.04)}
    assert found["tpot_s"] == {"p90": None, "p99": None, "max": pytest.approx(0.01)}


def test_no_answers_have_no_tail() -> None:
    assert set(tail([]).values()) == {None}
