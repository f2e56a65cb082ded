from __future__ import annotations

import os
import time

import pytest

from fakes.living import wait_for
from gearshift.supervisor.keeper import Keeper
from gearshift.supervisor.keepers import SpareKeeper


def test_a_spare_is_taken_once_and_then_another_is_made() -> None:
    spare = SpareKeeper()
    spare.prepare()
    first, second = spare.take(), spare.take()
    assert first.process.pid != second.process.pid
    assert first.alive
    for keeper in (first, second):
        keeper.dismiss()
        assert not keeper.alive


def test_a_spare_that_was_killed_is_replaced() -> None:
    spare = SpareKeeper()
    spare.prepare()
    doomed = spare._spare
    assert doomed is not None
    doomed.process.kill()
    wait_for(lambda: not doomed.alive)
    taken = spare.take()
    assert taken.alive
    assert taken.process.pid != doomed.process.pid
    taken.dismiss()


def test_preparing_twice_keeps_one_spare() -> None:
    spare = SpareKeeper()
    spare.prepare()
    first = spare._spare
    spare.prepare()
    assert spare._spare is first
    spare.close()


@pytest.mark.parametrize("prepared", [True, False])
def test_closing_leaves_no_process_and_no_descriptor(prepared: bool) -> None:  # noqa: FBT001 - a parameter of the test
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a Path would not change what is counted
    spare = SpareKeeper()
    if prepared:
        spare.prepare()
    made = spare._spare
    spare.close()
    assert made is None or not made.alive
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - likewise


def test_a_keeper_looks_ever_less_often_at_what_will_not_die() -> None:
    keeper = Keeper(control=-1)
    assert keeper._patience() is None
    for since_s, milliseconds in ((0.0, 5), (1.0, 50), (3600.0, 500)):
        keeper.kill_at = time.monotonic() - since_s
        assert keeper._patience() == pytest.approx(milliseconds, rel=0.2)
