"""Whether memory is back is a question of who took what, not of the total alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.device import MemoryReading
from gearshift.domain.units import GIB, MIB
from gearshift.supervisor.memory_return import RESIDUE_BYTES, memory_returned

ENGINE, WORKER, DESKTOP = 100, 101, 7


def reading(unnamed: int = 0, **held: int) -> MemoryReading:
    by_pid = {{"engine": ENGINE, "worker": WORKER, "desktop": DESKTOP}[name]: count for name, count in held.items()}
    return MemoryReading("GPU-0", 24 * GIB, unnamed + sum(by_pid.values()), by_pid)


def missing(at_start: MemoryReading, at_stop: MemoryReading, now: MemoryReading) -> int:
    return memory_returned(at_start, at_stop, now, {ENGINE, WORKER}).missing_bytes


def test_memory_that_came_back_is_not_missing() -> None:
    assert missing(reading(desktop=GIB), reading(desktop=GIB, engine=9 * GIB), reading(desktop=GIB)) == 0


def test_a_worker_that_still_holds_some_is_named() -> None:
    at_stop = reading(engine=9 * GIB, worker=8 * GIB)
    verdict = memory_returned(reading(), at_stop, reading(worker=8 * GIB), {ENGINE, WORKER})
    assert (verdict.returned, verdict.missing_bytes, verdict.holders) == (False, 8 * GIB, {WORKER: 8 * GIB})


def test_what_nobody_holds_is_missing_too() -> None:
    assert missing(reading(), reading(engine=9 * GIB), reading(unnamed=2 * GIB)) == 2 * GIB


def test_the_little_that_a_driver_keeps_is_not_missing() -> None:
    assert missing(reading(), reading(engine=9 * GIB), reading(unnamed=100 * MIB)) == 0


def test_a_desktop_that_grew_meanwhile_is_not_the_engines() -> None:
    at_stop = reading(desktop=GIB, engine=9 * GIB)
    assert missing(reading(desktop=GIB), at_stop, reading(desktop=5 * GIB)) == 0


def test_a_desktop_that_shrank_does_not_hide_what_stays() -> None:
    at_stop = reading(desktop=3 * GIB, engine=9 * GIB)
    assert missing(reading(), at_stop, reading(desktop=GIB, unnamed=2 * GIB)) == 2 * GIB


def test_a_driver_that_names_nobody_is_judged_by_the_total_before_the_launch() -> None:
    assert missing(reading(unnamed=GIB), reading(unnamed=10 * GIB), reading(unnamed=4 * GIB)) == 3 * GIB
    assert missing(reading(unnamed=GIB), reading(unnamed=10 * GIB), reading(unnamed=GIB)) == 0


sizes = st.integers(0, 24 * GIB)


@given(desktop=sizes, engine=sizes, later=sizes, stays=sizes)
def test_what_stays_is_what_is_missing(desktop: int, engine: int, later: int, stays: int) -> None:
    at_stop = reading(desktop=desktop, engine=engine)
    found = missing(reading(desktop=desktop), at_stop, reading(unnamed=stays, desktop=later))
    assert found == (stays if stays > RESIDUE_BYTES else 0)
