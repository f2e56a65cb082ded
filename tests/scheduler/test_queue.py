"""Side requests, queue limits, leaving: tables of events and effects."""

from __future__ import annotations

import pytest

from gearshift.scheduler import Leave, Scheduler, Stop, Tick
from scheduler.scenario import play, variant, world

A, B, C = variant("a"), variant("b"), variant("c")


def test_side_requests_never_cause_a_load_a_wake_or_a_swap() -> None:
    play(
        world(variant("a", load_estimate_s=7), B),
        """
        0   arrive 1 a side  -> refuse 1 not_resident +7
        1   arrive 2 a       -> start a
        2   arrive 3 a side
        3   ready a          -> grant 2
        4   leave 2          -> grant 3
        5   leave 3
        6   arrive 4 b side  -> refuse 4 not_resident +30  [a ready]
        """,
    )


def test_side_requests_do_not_keep_a_load_alive_and_are_told_when_it_is_cancelled() -> None:
    play(
        world(A, B),
        """
        0  arrive 1 a       -> start a
        1  arrive 2 a side
        2  arrive 3 b
        3  leave 1          -> stop a, refuse 2 not_resident +30
        4  stopped a        -> start b after a
        """,
    )


def test_side_requests_do_not_wait_for_a_swap_to_pass() -> None:
    play(
        world(A, B),
        """
        0   arrive 1 a       -> start a
        1   ready a          -> grant 1
        2   arrive 2 b
        3   arrive 3 a side
        62  tick             -> refuse 3 not_resident +30  [a draining]
        """,
    )


def test_a_queue_at_its_limit_refuses_with_the_rest_of_the_known_load_time() -> None:
    play(
        world(variant("a", queue_limit=1)),
        """
        0   arrive 1 a        -> start a
        20  ready a 20        -> grant 1
        21  arrive 2 a
        22  arrive 3 a        -> refuse 3 queue_full +1
        23  dies a            -> stop a
        24  stopped a
        25  tick              -> start a
        30  arrive 4 a        -> refuse 4 queue_full +15
        31  arrive 5 a insist
        """,
    )


def test_who_leaves_the_queue_is_forgotten_and_leaving_twice_is_harmless() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a
        0  arrive 2 a
        1  leave 1
        1  leave 1
        2  ready a     -> grant 2
        3  leave 2
        3  leave 2
        """,
    )


def test_a_load_whose_last_waiter_left_is_cancelled_once_another_variant_wants_its_place() -> None:
    play(
        world(A, B),
        """
        0  arrive 1 a  -> start a
        1  leave 1     ->                 [a loading]
        2  arrive 2 b  -> stop a
        3  ready a     ->                 [a stopping]
        4  stopped a   -> start b after a
        """,
    )


def test_a_load_that_nobody_else_wants_the_place_of_goes_on_without_a_waiter() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  leave 1
        5  ready a     ->  [a ready]
        """,
    )


def test_two_variants_that_wait_for_one_place_share_its_eviction_and_are_both_served() -> None:
    play(
        world(A, B, C),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   arrive 2 b
        3   arrive 3 c
        20  leave 1     -> stop a
        21  stopped a   -> start b after a
        25  ready b     -> grant 2
        26  leave 2
        35  tick        -> stop b
        36  stopped b   -> start c after b
        40  ready c     -> grant 3
        """,
    )


@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_a_request_that_races_an_idle_unload_is_served_by_the_next_load(gap: float) -> None:
    play(
        world(variant("a", unload_after_s=30)),
        f"""
        0          arrive 1 a  -> start a
        1          ready a     -> grant 1
        2          leave 1
        32         tick        -> stop a
        {32 + gap} arrive 2 a
        33         stopped a   -> start a
        40         ready a     -> grant 2
        """,
    )


def test_idle_unload_counts_from_the_end_of_the_last_lease() -> None:
    scheduler = play(
        world(variant("a", unload_after_s=30)),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        50  leave 1
        70  arrive 2 a  -> grant 2
        """,
    )
    scheduler.handle(Tick(), 75)
    assert scheduler.wake_at is None
    scheduler.handle(Leave(2), 80)
    assert scheduler.wake_at == 110
    assert scheduler.handle(Tick(), 110) == [Stop("a")]


def test_a_request_for_an_unknown_variant_is_refused() -> None:
    scheduler = Scheduler(world(A))
    assert scheduler.wake_at is None
    play(world(A), "0 arrive 1 nobody -> refuse 1 draining")
