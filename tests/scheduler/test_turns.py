"""Fit, fairness and leaving: whose turn it is, told as tables of events and effects."""

from __future__ import annotations

import pytest

from gearshift.scheduler import Arrive, Leave, Scheduler, Stop, Tick
from scheduler.scenario import group, play, variant, world

A, B, C = variant("a"), variant("b"), variant("c")


def test_a_request_on_a_stopped_variant_loads_it_and_gets_its_lease_when_it_is_ready() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a  [a loading]
        5  ready a     -> grant 1  [a ready]
        9  leave 1
        """,
    )


def test_what_fits_together_is_resident_together_and_loads_side_by_side() -> None:
    play(
        world(variant("a", 4), variant("b", 4), variant("c", 4)),
        """
        0   arrive 1 a  -> start a
        0   arrive 2 b  -> start b
        5   ready a     -> grant 1
        6   ready b     -> grant 2
        7   leave 1
        8   arrive 3 c
        15  tick        -> stop a
        16  stopped a   -> start c after a  [b ready]
        """,
    )


def test_several_waiting_variants_that_fit_start_in_one_go_once_the_place_is_free() -> None:
    play(
        world(A, variant("b", 5), variant("c", 5)),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   leave 1
        3   arrive 2 b
        4   arrive 3 c
        11  tick        -> stop a
        12  stopped a   -> start b after a, start c after a
        """,
    )


def test_variants_on_different_devices_do_not_wait_for_each_other() -> None:
    play(
        world(variant("a", {"gpu0": 10}), variant("b", {"gpu1": 10})),
        """
        0  arrive 1 a  -> start a
        0  arrive 2 b  -> start b
        """,
    )


def test_a_variant_over_two_devices_makes_both_tenants_leave_together() -> None:
    play(
        world(variant("a", {"gpu0": 9}), variant("b", {"gpu1": 9}), variant("both", {"gpu0": 9, "gpu1": 9})),
        """
        0   arrive 1 a     -> start a
        0   arrive 2 b     -> start b
        5   ready a        -> grant 1
        8   ready b        -> grant 2
        9   leave 1
        10  arrive 3 both  ->        [a ready, b ready]
        70  tick           -> stop a  [b draining]
        71  stopped a      ->        [a stopped]
        72  arrive 4 a     ->        [a stopped]
        80  leave 2        -> stop b
        81  stopped b      -> start both after a b
        """,
    )


def test_a_variant_of_unknown_size_shares_its_device_with_nobody() -> None:
    play(
        world(variant("a", None), variant("b", 1)),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   leave 1
        3   arrive 2 b
        11  tick        -> stop a
        12  stopped a   -> start b after a
        """,
    )


def test_a_variant_that_fits_nowhere_by_its_plan_gets_all_of_its_devices_and_its_engine_says_what_it_lacks() -> None:
    play(
        world(variant("a", 2), variant("huge", 99)),
        """
        0   arrive 1 a     -> start a
        1   ready a        -> grant 1
        2   leave 1
        20  arrive 2 huge  -> stop a
        21  stopped a      -> start huge after a
        30  fails huge     -> refuse 2 load_failed (boom) +2, stop huge
        """,
    )


def test_of_those_who_could_leave_the_idle_and_least_recently_used_does() -> None:
    play(
        world(variant("a", 5, min_resident_s=0), variant("b", 5, min_resident_s=0), variant("c", 5)),
        """
        0  arrive 1 a  -> start a
        0  arrive 2 b  -> start b
        1  ready a     -> grant 1
        1  ready b     -> grant 2
        2  leave 2
        3  leave 1
        4  arrive 3 c  -> stop b
        """,
    )


def test_a_load_that_somebody_waits_for_is_the_last_to_make_room() -> None:
    play(
        world(variant("a", 5, min_resident_s=0), variant("b", 5), variant("c", 5)),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  leave 1
        3  arrive 2 b  -> start b
        4  arrive 3 c  -> stop a  [b loading]
        """,
    )


# -- groups ------------------------------------------------------------------------------------------------------------


def test_members_of_a_swap_group_are_never_resident_together_even_where_they_fit() -> None:
    play(
        world(variant("a", {"gpu0": 1}), variant("b", {"gpu1": 1}), groups=(group("a", "b"),)),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   leave 1
        3   arrive 2 b
        11  tick        -> stop a
        12  stopped a   -> start b after a
        """,
    )


def test_members_of_a_group_without_swapping_fit_whatever_the_figures_say() -> None:
    play(
        world(A, variant("b", 99), variant("c", None), groups=(group("a", "b", "c", swap=False),)),
        """
        0  arrive 1 a  -> start a
        0  arrive 2 b  -> start b
        0  arrive 3 c  -> start c
        """,
    )


def test_an_exclusive_group_keeps_everybody_else_off_the_box_in_both_directions() -> None:
    box = world(
        variant("a", {"gpu0": 1}, min_resident_s=0),
        variant("b", {"gpu1": 1}, min_resident_s=0),
        groups=(group("a", exclusive=True),),
    )
    play(
        box,
        """
        0  arrive 1 b  -> start b
        1  ready b     -> grant 1
        2  leave 1
        3  arrive 2 a  -> stop b
        4  stopped b   -> start a after b
        5  ready a     -> grant 2
        6  leave 2
        7  arrive 3 b  -> stop a
        """,
    )


def test_a_persistent_variant_is_never_stopped_to_make_room_and_the_refusal_says_so() -> None:
    scheduler = play(
        world(A, B, groups=(group("a", persistent=True),)),
        """
        0    arrive 1 a  -> start a
        1    ready a     -> grant 1
        2    leave 1
        100  arrive 2 b  -> refuse 2 blocked (b cannot be loaded: a holds its devices and cannot be made to leave)
        """,
    )
    assert scheduler.slots["a"].phase == "ready"


def test_an_exclusive_group_lives_beside_a_persistent_one() -> None:
    play(
        world(variant("a", 2), variant("b", 2), groups=(group("a", persistent=True), group("b", exclusive=True))),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  arrive 2 b  -> start b
        """,
    )


def test_members_of_one_persistent_group_still_swap_among_themselves() -> None:
    play(
        world(variant("a", min_resident_s=0), B, groups=(group("a", "b", persistent=True),)),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  leave 1
        3  arrive 2 b  -> stop a
        """,
    )


def test_who_waits_behind_a_persistent_variants_claim_is_not_refused_before_that_one_is_there() -> None:
    play(
        world(A, B, variant("c", min_resident_s=0), groups=(group("b", persistent=True),)),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   arrive 2 b
        3   arrive 3 c
        4   leave 2
        5   leave 1
        11  tick        -> stop a
        12  stopped a   -> start c after a
        """,
    )


# -- fairness ----------------------------------------------------------------------------------------------------------


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


# -- side requests and queue limits --------------------------------------------------------------------------------


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


# -- leaving -----------------------------------------------------------------------------------------------------------


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
