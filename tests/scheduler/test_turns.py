"""Whose turn it is, and for how long: tables of events and effects."""

from __future__ import annotations

from gearshift.scheduler import Arrive, Leave, Stop
from scheduler.scenario import play, variant, world

A, B, C = variant("a"), variant("b"), variant("c")


def test_a_busy_resident_serves_until_max_wait_of_the_oldest_waiter_then_drains_and_swaps() -> None:
    play(
        world(variant("a", max_inflight=2), B),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        20  arrive 2 b
        40  arrive 3 a  -> grant 3  [a ready]
        80  tick        ->          [a draining]
        81  arrive 4 a  ->          [a draining]
        85  leave 1
        90  leave 3     -> stop a
        91  stopped a   -> start b after a
        95  ready b     -> grant 2
        """,
    )


def test_an_event_told_late_does_not_slip_a_lease_in_after_max_wait() -> None:
    scheduler = play(
        world(variant("a", max_inflight=9), B),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        20  arrive 2 b
        """,
    )
    assert scheduler.handle(Arrive(3, "a"), 80.5) == []
    assert scheduler.slots["a"].phase == "draining"


def test_who_is_just_leaving_is_told_nothing_any_more_however_late() -> None:
    scheduler = play(
        world(variant("a", drain_timeout_s=5), B),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   arrive 2 b
        62  tick        ->          [a draining]
        """,
    )
    assert scheduler.handle(Leave(1), 67.5) == [Stop("a")]


def test_an_idle_resident_makes_room_at_once_but_not_before_min_resident() -> None:
    play(
        world(A, B),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   leave 1
        3   arrive 2 b  ->  [a ready]
        11  tick        -> stop a
        """,
    )


def test_min_resident_outlasts_max_wait() -> None:
    play(
        world(variant("a", min_resident_s=100), B),
        """
        0    arrive 1 a  -> start a
        1    ready a     -> grant 1
        2    arrive 2 b
        101  tick        ->         [a draining]
        """,
    )


def test_a_variant_just_ready_serves_before_it_can_be_told_to_drain() -> None:
    play(
        world(variant("a", min_resident_s=0), variant("b", min_resident_s=0)),
        """
        0    arrive 1 a  -> start a
        5    arrive 2 b
        5    arrive 3 a
        80   ready a     -> grant 1  [a draining]
        90   leave 1     -> stop a
        91   stopped a   -> start b after a
        170  ready b     -> grant 2  [b draining]
        180  leave 2     -> stop b
        181  stopped b   -> start a after b
        """,
    )


def test_waiters_that_a_turn_left_over_do_not_take_the_place_back_from_whom_it_was_given_up_for() -> None:
    play(
        world(A, B),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   arrive 2 a
        3   arrive 3 b
        63  tick        ->                 [a draining]
        64  leave 1     -> stop a
        65  stopped a   -> start b after a
        70  ready b     -> grant 3
        80  tick        ->                 [b draining]
        81  leave 3     -> stop b
        82  stopped b   -> start a after b
        83  ready a     -> grant 2
        """,
    )


def test_three_variants_take_turns_though_the_first_two_have_older_waiters_left() -> None:
    play(
        world(A, B, C),
        """
        0    arrive 1 a  -> start a
        0    arrive 2 a
        0    arrive 3 b
        0    arrive 4 b
        5    ready a     -> grant 1
        6    arrive 5 c
        60   tick        ->                 [a draining]
        61   leave 1     -> stop a
        62   stopped a   -> start b after a
        67   ready b     -> grant 3
        77   tick        ->                 [b draining]
        78   leave 3     -> stop b
        79   stopped b   -> start c after b
        """,
    )


def test_a_patient_waiter_ahead_does_not_cost_an_impatient_one_behind_its_own_max_wait() -> None:
    play(
        world(A, variant("b", max_wait_s=600), variant("c", max_wait_s=30)),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   arrive 2 b
        20  arrive 3 c
        50  tick        ->                 [a draining]
        51  leave 1     -> stop a
        52  stopped a   -> start b after a
        """,
    )


def test_a_younger_waiter_overtakes_only_where_it_takes_nothing_from_an_older_one() -> None:
    play(
        world(variant("a", 6), variant("b", 8), variant("c", 2), variant("d", 3)),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  arrive 2 b
        3  arrive 3 d
        4  arrive 4 c  -> start c
        """,
    )


def test_a_drain_that_nobody_needs_any_more_is_taken_back_and_serves_who_came_meanwhile() -> None:
    play(
        world(variant("a", max_inflight=2), B),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   arrive 2 b
        62  tick        ->          [a draining]
        63  arrive 3 a
        64  leave 2     -> grant 3  [a ready]
        """,
    )


def test_max_inflight_keeps_the_rest_in_our_queue_in_arrival_order() -> None:
    scheduler = play(
        world(variant("a", max_inflight=2)),
        """
        0  arrive 1 a  -> start a
        0  arrive 2 a
        0  arrive 3 a
        0  arrive 4 a
        1  ready a     -> grant 1, grant 2
        2  leave 2     -> grant 3
        """,
    )
    assert [scheduler.ahead(ticket) for ticket in (3, 4, 99)] == [None, 0, None]


def test_an_exclusive_lease_waits_until_it_is_alone_and_keeps_others_out() -> None:
    play(
        world(variant("a", max_inflight=4)),
        """
        0  arrive 1 a            -> start a
        1  ready a               -> grant 1
        2  arrive 2 a exclusive
        3  arrive 3 a
        4  leave 1               -> grant 2
        5  leave 2               -> grant 3
        """,
    )


def test_a_drain_timeout_interrupts_what_is_left() -> None:
    play(
        world(variant("a", drain_timeout_s=5, max_inflight=2), B),
        """
        0   arrive 1 a  -> start a
        0   arrive 2 a
        1   ready a     -> grant 1, grant 2
        2   arrive 3 b
        62  tick        ->                          [a draining]
        67  tick        -> revoke 1, revoke 2, stop a
        68  leave 1
        68  leave 2
        69  stopped a   -> start b after a
        """,
    )
