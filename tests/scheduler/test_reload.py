"""Reload, unload, shutdown: what an operator asks for."""

from __future__ import annotations

from dataclasses import replace

from gearshift.domain.errors import Failure
from gearshift.scheduler import Arrive, Configure, Died, Ready, Scheduler, Start, Stop, Stopped
from gearshift.scheduler.slot import RESTARTS
from scheduler.scenario import play, variant, world

A, B = variant("a"), variant("b")
SLEEPER = variant("a", asleep={"gpu": 1}, asleep_ram=8, min_resident_s=0)


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


def test_an_unload_while_the_stop_of_a_dead_engine_is_under_way_forgives_it_too() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        5  dies a      -> stop a
        5  unload a
        6  stopped a   ->         [a stopped]
        """,
    )


def test_an_engine_that_dies_while_an_unload_waits_for_its_leases_has_left_all_the_same() -> None:
    play(
        world(A),
        """
        0  arrive 1 a  -> start a
        1  ready a     -> grant 1
        2  unload a    ->         [a draining]
        3  dies a      -> stop a
        4  stopped a   ->         [a stopped]
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
