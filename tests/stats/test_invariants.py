"""Each invariant holds, fails, or says what it lacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.stats import invariants
from gearshift.stats.invariants import Check


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_acceptance_sums_to_the_length_it_makes(rates: list[float]) -> None:
    assert invariants.acceptance_sums_to_length(rates, 1 + sum(rates)).ok
    assert invariants.acceptance_sums_to_length(rates, 1.5 + sum(rates)).ok is False


@pytest.mark.parametrize(
    ("check", "ok"),
    [
        (invariants.completed_gt_0(0), False),
        (invariants.completed_gt_0(3), True),
        (invariants.in_flight_le_concurrency(6, 2), False),
        (invariants.in_flight_le_concurrency(2, 2), True),
        (invariants.peak_ge_mean(46.0, 190.0), False),
        (invariants.itl_over_length_is_tpot(0.040, 4.0, 0.0100), True),
        (invariants.itl_over_length_is_tpot(0.040, None, 0.0100), False),
        (invariants.latency_is_ttft_plus_decode(0.895, 0.04, 0.0075, 63), False),
        (invariants.tokens_reconcile({"usage": 31200, "server": 31200}), True),
        (invariants.tokens_reconcile({"usage": 31200, "server": 30000, "client": None}), False),
        (invariants.little(2.0, 1.5, 3), True),
        (invariants.little(4.0, 1.5, 3), False),
        (invariants.client_ttft_ge_server(0.110, 0.109), True),
        (invariants.client_ttft_ge_server(0.100, 0.109), False),
        (invariants.requests_are_ours(4366, 2119), False),
        (invariants.percentiles_ascend({"p50": 1.0, "p95": 2.0, "p99": 1.5}), False),
    ],
)
def test_an_invariant_is_judged_by_its_figures(check: Check, ok: bool) -> None:  # noqa: FBT001 - the expected outcome
    assert check.ok is ok


@pytest.mark.parametrize(
    "check",
    [
        invariants.completed_gt_0(None),
        invariants.in_flight_le_concurrency(None, 2),
        invariants.peak_ge_mean(1.0, None),
        invariants.acceptance_sums_to_length(None, 2.0),
        invariants.itl_over_length_is_tpot(None, 2.0, 1.0),
        invariants.latency_is_ttft_plus_decode(1.0, None, 1.0, 1),
        invariants.tokens_reconcile({"usage": 5}),
        invariants.little(None, 1.0, 1),
        invariants.client_ttft_ge_server(1.0, None),
        invariants.requests_are_ours(None, 1),
        invariants.percentiles_ascend({"p50": 1.0}),
    ],
)
def test_what_is_not_stated_is_neither_right_nor_wrong(check: Check) -> None:
    assert check.ok is None
    assert check.detail.startswith("not stated")


def test_failing_names_the_failed_ones_only() -> None:
    checks = [invariants.completed_gt_0(0), invariants.completed_gt_0(None), invariants.peak_ge_mean(2, 1)]
    assert invariants.failing(checks) == ("completed_gt_0",)
