"""Second chances are for lateness only, and few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.retries import Retries


@given(trials=st.integers(1, 20), late=st.lists(st.booleans(), min_size=40, max_size=40))
def test_half_as_many_trials_are_run_again_at_the_most_and_only_late_ones(trials: int, late: list[bool]) -> None:
    retries, again = Retries(trials), 0
    kept: list[tuple[bool, int]] = []
    outcomes = iter(late)
    while len(kept) < trials:
        outcome = next(outcomes)
        if retries.again(late=outcome):
            assert outcome
            again += 1
        else:
            kept.append((outcome, retries.kept()))
    assert again <= (trials + 1) // 2
    assert sum(attempts - 1 for _, attempts in kept) == again
    if any(was_late for was_late, _ in kept):
        assert again == (trials + 1) // 2, "a late one stays only where no chance is left"


def test_a_trial_that_needed_no_second_one_took_one_attempt() -> None:
    retries = Retries(2)
    assert [retries.again(late=late) for late in (True, False)] == [True, False]
    assert [retries.kept(), retries.kept()] == [2, 1]
