"""What becomes of a variant: sleep, death, failed loads and stops, reload, unload, shutdown."""

from __future__ import annotations

from dataclasses import replace

from gearshift.domain.errors import Failure
from gearshift.scheduler import Arrive, Configure, Died, Ready, Scheduler, Start, Stop, Stopped
from gearshift.scheduler.slot import HEALTHY_S, RESTARTS
from scheduler.scenario import group, play, variant, world

A, B = variant("a"), variant("b")
SLEEPER = variant("a", asleep={"gpu": 1}, asleep_ram=8, min_resident_s=0)


# -- sleep -------------------------------------------------------------------------------------------------------------


def test_a_variant_that_can_sleep_makes_room_by_sleeping_and_is_woken_by_the_next_request() -> None:
    play(
        world(SLEEPER, variant("b", 9, min_resident_s=0), sleep_ram=8),
        """
        0  arrive 1 a   -> start a
        1  ready a      -> grant 1
        2  leave 1
        3  arrive 2 b   -> sleep a
        4  slept a 1    -> start b after a  [a sleeping]
        5  ready b      -> grant 2
        6  leave 2
        7  arrive 3 a   -> stop b
        8  stopped b    -> wake a after b
        9  ready a      -> grant 3
        """,
    )


def test_a_wake_needs_the_whole_awake_size_not_the_residue() -> None:
    play(
        world(replace(SLEEPER, demand={"gpu": 6}), variant("b", 5), sleep_ram=8),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   leave 1
        3   arrive 2 b  -> sleep a
        4   slept a 1   -> start b after a
        5   ready b     -> grant 2
        6   arrive 3 a  ->         [a sleeping]
        15  leave 2     -> stop b
        """,
    )


def test_members_of_a_swap_group_may_sleep_beside_the_one_that_is_awake() -> None:
    play(
        world(SLEEPER, variant("b", 2), groups=(group("a", "b"),), sleep_ram=8),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  leave 1
        3  arrive 2 b  -> sleep a
        4  slept a 1   -> start b after a
        """,
    )


def test_without_host_memory_for_it_a_sleeper_is_stopped() -> None:
    play(
        world(SLEEPER, variant("b", 9), sleep_ram=7),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  leave 1
        3  arrive 2 b  -> stop a
        """,
    )


def test_who_would_be_in_the_way_even_asleep_is_stopped() -> None:
    play(
        world(SLEEPER, B, sleep_ram=8),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  leave 1
        3  arrive 2 b  -> stop a
        """,
    )


def test_a_residue_larger_than_planned_is_stopped_once_it_is_in_the_way() -> None:
    play(
        world(SLEEPER, variant("b", 9), sleep_ram=8),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  leave 1
        3  arrive 2 b  -> sleep a
        4  slept a 4   -> stop a
        5  stopped a   -> start b after a
        """,
    )


def test_an_engine_that_would_not_sleep_and_was_stopped_instead_makes_room_all_the_same() -> None:
    play(
        world(SLEEPER, variant("b", 9), sleep_ram=8),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  leave 1
        3  arrive 2 b  -> sleep a
        4  stopped a   -> start b after a  [a stopped]
        """,
    )


def test_a_failed_falling_asleep_gives_its_host_memory_back() -> None:
    scheduler = play(
        world(SLEEPER, variant("b", 9), sleep_ram=8),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  leave 1
        3  arrive 2 b  -> sleep a
        4  stuck a     -> refuse 2 blocked (b cannot be loaded: a holds its devices and cannot be made to leave; \
pid 7 of a is left) +5
        """,
    )
    assert not scheduler.slots["a"].sleep_next


def test_a_sleeper_is_stopped_by_an_unload_and_after_its_death_starts_cold() -> None:
    play(
        world(replace(SLEEPER, unload_after_s=10), sleep_ram=8),
        """
        0   arrive 1 a  -> start a
        1   ready a     -> grant 1
        2   leave 1
        12  tick        -> sleep a
        13  slept a 1   ->          [a sleeping]
        14  unload a    -> stop a
        15  stopped a   ->          [a stopped]
        20  arrive 2 a  -> start a
        21  ready a     -> grant 2
        22  leave 2
        32  tick        -> sleep a
        33  slept a 1
        40  dies a      -> stop a
        41  stopped a   ->          [a stopped]
        42  arrive 3 a  -> start a
        """,
    )


# -- death and failed loads ------------------------------------------------------------------------------------------


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


# -- stops that leave something behind -------------------------------------------------------------------------------


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


# -- reload ------------------------------------------------------------------------------------------------------------


def test_a_reload_leaves_untouched_variants_and_their_streams_alone() -> None:
    play(
        world(A, variant("b", {"gpu1": 1})),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  configure   ->         [a ready]
        3  arrive 2 a
        4  leave 1     -> grant 2
        5  arrive 3 c  -> start c
        """,
        then=world(replace(A, max_wait_s=5), variant("c", {"gpu1": 1})),
    )


def test_a_changed_variant_is_restarted_once_its_streams_have_ended_and_its_waiters_go_to_the_new_one() -> None:
    scheduler = play(
        world(A),
        """
        0  arrive 1 a    -> start a
        1  ready a 12    -> grant 1
        2  arrive 2 a
        3  configure     ->         [a draining]
        4  arrive 3 a
        9  leave 1       -> stop a
        10 stopped a     -> start a
        11 ready a       -> grant 2
        """,
        then=world(replace(A, launch="new")),
    )
    assert scheduler.slots["a"].profile.launch == "new"
    assert scheduler.slots["a"].load_s is None


def test_a_changed_idle_variant_comes_back_though_nobody_waits_for_it() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  leave 1
        3  configure   -> stop a
        4  stopped a   -> start a
        """,
        then=world(replace(A, launch="new")),
    )


def test_a_changed_variant_that_is_loading_starts_over_with_its_waiters() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  configure   -> stop a
        2  stopped a   -> start a
        3  ready a     -> grant 1
        """,
        then=world(replace(A, launch="new")),
    )


def test_a_change_forgives_the_failures_of_the_old_launch() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  fails a     -> refuse 1 load_failed (boom) +2, stop a
        1  configure
        1  arrive 2 a
        2  stopped a   -> start a
        """,
        then=world(replace(A, launch="new")),
    )


def test_a_death_while_it_drains_for_a_change_does_not_lose_the_waiters_of_the_new_launch() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  arrive 2 a
        3  configure   ->         [a draining]
        4  dies a      -> stop a
        5  stopped a   -> start a
        6  ready a     -> grant 2
        """,
        then=world(replace(A, launch="new")),
    )


def test_not_even_one_death_too_many_loses_the_waiters_of_the_new_launch() -> None:
    scheduler = play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  arrive 2 a
        """,
    )
    scheduler.slots["a"].failures = RESTARTS
    scheduler.handle(Configure(world(replace(A, launch="new"))), 3)
    assert scheduler.handle(Died("a", Failure("boom")), 4) == [Stop("a")]
    assert scheduler.handle(Stopped("a"), 5) == [Start("a")]


def test_a_removed_variant_refuses_its_waiters_ends_its_streams_in_peace_and_is_forgotten() -> None:
    scheduler = play(
        world(A, B),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  arrive 2 a
        3  configure   -> refuse 2 draining  [a draining]
        4  arrive 3 a  -> refuse 3 draining
        5  leave 1     -> stop a
        6  stopped a
        7  ready a
        """,
        then=world(B),
    )
    assert list(scheduler.slots) == ["b"]


def test_a_stuck_stop_of_a_removed_variant_is_still_tried_again_and_keeps_its_devices_until_then() -> None:
    scheduler = play(
        world(A, B),
        """
        0   arrive 1 a  -> start a
        1   configure   -> refuse 1 draining, stop a
        2   stuck a     ->        [a failed]
        7   tick        -> stop a
        8   arrive 2 b
        9   stopped a   -> start b after a
        """,
        then=world(B),
    )
    assert list(scheduler.slots) == ["b"]


def test_a_variant_that_left_and_came_back_while_it_stopped_is_there_again() -> None:
    scheduler = play(
        world(A, B),
        """
        0  arrive 1 a  -> start a
        1  configure   -> refuse 1 draining, stop a
        """,
        then=world(B),
    )
    assert scheduler.handle(Configure(world(A, B)), 2) == []
    assert list(scheduler.slots) == ["a", "b"]
    assert scheduler.handle(Stopped("a"), 3) == []
    assert scheduler.handle(Arrive(2, "a"), 4) == [Start("a")]


# -- unload and shutdown -----------------------------------------------------------------------------------------------


def test_an_unload_waits_for_leases_refuses_waiters_and_cannot_be_taken_back() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  arrive 2 a
        3  unload a    -> refuse 2 draining  [a draining]
        4  leave 1     -> stop a
        5  stopped a   ->                    [a stopped]
        6  arrive 3 a  -> start a
        7  unload a    -> refuse 3 draining, stop a
        8  stopped a   ->                    [a stopped]
        """,
    )


def test_an_unload_forgives_a_failed_variant() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  fails a     -> refuse 1 load_failed (boom) +2, stop a
        2  stopped a   ->         [a failed]
        2  unload a    ->         [a stopped]
        2  arrive 2 a  -> start a
        """,
    )


def test_a_shutdown_refuses_waiters_lets_leases_end_and_stops_everything() -> None:
    scheduler = play(
        world(
            variant("a", {"gpu0": 1}),
            variant("b", {"gpu1": 1}),
            variant("c", {"gpu2": 1}, asleep={}, min_resident_s=0, unload_after_s=1),
            sleep_ram=1,
        ),
        """
        0   arrive 1 a  -> start a
        0   arrive 2 b  -> start b
        0   arrive 3 c  -> start c
        1   ready a     -> grant 1
        1   ready c     -> grant 3
        2   leave 3
        3   tick        -> sleep c
        4   arrive 4 a
        5   shutdown    -> refuse 4 draining, refuse 2 draining, stop b  [a draining]
        6   arrive 5 a  -> refuse 5 draining
        7   slept c 0   -> stop c
        8   stopped b
        9   stopped c
        10  leave 1     -> stop a
        11  stopped a
        """,
    )
    assert {slot.phase for slot in scheduler.slots.values()} == {"stopped"}
    assert scheduler.wake_at is None


def test_a_start_names_who_left_for_it_and_nobody_who_left_for_somebody_gone_since() -> None:
    play(
        world(variant("a", min_resident_s=0), B),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  leave 1
        3  arrive 2 b  -> stop a
        4  leave 2
        5  stopped a
        6  arrive 3 b  -> start b
        """,
    )


def test_events_of_an_earlier_life_mean_nothing() -> None:
    scheduler = Scheduler(world(A))
    for stale in (Ready("a"), Ready("gone")):
        assert scheduler.handle(stale, 1) == []
    assert scheduler.slots["a"].phase == "stopped"
