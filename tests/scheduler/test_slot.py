"""The phase table, walked in full."""

from __future__ import annotations

import itertools

import pytest

from gearshift.scheduler import Phase, Slot
from gearshift.scheduler.slot import HOLDING, LEGAL, RESTING
from scheduler.scenario import variant


@pytest.mark.parametrize(("before", "after"), list(itertools.product(Phase, Phase)))
def test_a_slot_moves_exactly_where_the_table_says(before: Phase, after: Phase) -> None:
    slot = Slot(variant("a"), before)
    if after in LEGAL[before]:
        slot.move(after, 7)
        assert (slot.phase, slot.since) == (after, 7)
    else:
        with pytest.raises(ValueError, match=f"a cannot go from {before} to {after}"):
            slot.move(after, 7)
        assert slot.phase is before


def test_every_phase_can_be_reached_and_left() -> None:
    assert set(LEGAL) == set(Phase)
    assert set().union(*LEGAL.values()) == set(Phase)
    assert all(LEGAL.values())


def test_only_a_sleeper_both_rests_and_holds_devices() -> None:
    assert {Phase.SLEEPING} == HOLDING & RESTING
    assert set(Phase) == HOLDING | RESTING
