"""Deaths, failed loads, and stops that leave something behind."""

from __future__ import annotations

from gearshift.scheduler.slot import HEALTHY_S, RESTARTS
from scheduler.scenario import play, variant, world

A, B = variant("a"), variant("b")
SLEEPER = variant("a", asleep={"gpu": 1}, asleep_ram=8, min_resident_s=0)


def test_a_dead_engine_is_restarted_after_a_back_off_and_its_waiters_wait_for_it() -> None:
    play(
        world(A),
        """
        0   arrive 1 a  -> start a
        0   arrive 2 a
        1   ready a     -> grant 1
        5   dies a      -> stop a
        6   stopped a   ->         [a failed]
        7   tick        -> start a
        7   leave 1
        8   arrive 3 a
        9   ready a     -> grant 2
        """,
    )


def test_after_repeated_deaths_it_stays_failed_and_who_waits_or_comes_is_told_the_cause() -> None:
    scheduler = play(
        world(A),
        """
        0    arrive 1 a  -> start a
        1    ready a     -> grant 1
        2    dies a      -> stop a
        3    stopped a
        4    tick        -> start a
        5    ready a
        6    dies a      -> stop a
        7    stopped a
        16   tick        -> start a
        17   ready a
        18   dies a      -> stop a
        19   stopped a
        78   tick        -> start a
        79   ready a
        80   arrive 2 a  -> grant 2
        80   arrive 3 a
        81   dies a      -> refuse 3 load_failed (boom) +300, stop a
        82   arrive 4 a  -> refuse 4 load_failed (boom) +299
        83   stopped a   ->         [a failed]
        99   arrive 5 a  -> refuse 5 load_failed (boom) +282
        381  arrive 6 a  -> start a
        """,
    )
    assert scheduler.slots["a"].failures == RESTARTS + 1


def test_deaths_with_a_healthy_while_between_them_are_not_in_a_row() -> None:
    play(
        world(A),
        f"""
        0                  arrive 1 a  -> start a
        1                  ready a     -> grant 1
        2                  dies a      -> stop a
        3                  stopped a
        4                  tick        -> start a
        5                  ready a
        {5 + HEALTHY_S}    dies a      -> stop a
        {6 + HEALTHY_S}    stopped a
        {7 + HEALTHY_S}    tick        -> start a
        """,
    )


def test_a_restart_that_nobody_waits_for_takes_nobodys_place() -> None:
    play(
        world(A, B),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   dies a      -> stop a
        3   arrive 2 b
        4   stopped a   -> start b after a
        5   ready b     -> grant 2
        6   leave 2
        99  unload b    -> stop b
        100 stopped b   ->                 [a failed]
        """,
    )


def test_a_failed_load_tells_its_waiters_the_cause_and_is_tried_again_after_a_growing_back_off() -> None:
    play(
        world(A),
        """
        0   arrive 1 a  -> start a
        0   arrive 2 a
        5   fails a     -> refuse 1 load_failed (boom) +2, refuse 2 load_failed (boom) +2, stop a
        6   arrive 3 a  -> refuse 3 load_failed (boom) +1
        6   stopped a   ->         [a failed]
        7   arrive 4 a  -> start a
        9   fails a     -> refuse 4 load_failed (boom) +10, stop a
        10  stopped a
        19  arrive 5 a  -> start a
        20  ready a     -> grant 5
        """,
    )


def test_an_operator_who_insists_overrides_the_back_off() -> None:
    play(
        world(A),
        """
        0  arrive 1 a         -> start a
        1  fails a            -> refuse 1 load_failed (boom) +2, stop a
        2  stopped a
        2  arrive 2 a insist  -> start a
        3  ready a            -> grant 2
        """,
    )


def test_a_failed_load_gives_its_place_to_whoever_waits_behind_it() -> None:
    play(
        world(A, B),
        """
        0  arrive 1 a  -> start a
        1  arrive 2 b
        2  fails a     -> refuse 1 load_failed (boom) +2, stop a
        3  stopped a   -> start b after a
        """,
    )


def test_a_stuck_stop_blocks_its_devices_names_what_is_left_and_is_tried_again_by_itself() -> None:
    blocked = "b cannot be loaded: a holds its devices and cannot be made to leave; pid 7 of a is left"
    play(
        world(variant("a", min_resident_s=0), B),
        f"""
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   leave 1
        3   arrive 2 b  -> stop a
        4   stuck a     -> refuse 2 blocked ({blocked}) +5      [a failed]
        6   arrive 3 b  -> refuse 3 blocked ({blocked}) +3
        7   arrive 4 a  -> refuse 4 load_failed (pid 7 of a is left) +2
        9   tick        -> stop a                               [a stopping]
        9   arrive 5 a
        10  stuck a     -> refuse 5 load_failed (pid 7 of a is left) +15
        25  tick        -> stop a
        25  arrive 6 b
        26  stopped a   -> start b after a                      [a stopped]
        """,
    )


def test_once_what_was_left_is_gone_the_first_cause_is_shown_again() -> None:
    scheduler = play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  fails a     -> refuse 1 load_failed (boom) +2, stop a
        2  stuck a
        7  tick        -> stop a
        8  stopped a   ->         [a failed]
        """,
    )
    failure = scheduler.slots["a"].failure
    assert failure is not None
    assert failure.cause == "boom"


def test_what_cannot_leave_is_gone_around_where_somebody_else_can() -> None:
    play(
        world(variant("a", 3, min_resident_s=0), variant("b", 7, min_resident_s=0), variant("c", 7)),
        """
        0  arrive 1 a  -> start a
        0  arrive 2 b  -> start b
        1  ready a     -> grant 1
        1  ready b     -> grant 2
        2  leave 1
        2  leave 2
        3  unload a    -> stop a
        4  stuck a
        5  arrive 3 c  -> stop b
        6  stopped b   -> start c after b
        """,
    )
