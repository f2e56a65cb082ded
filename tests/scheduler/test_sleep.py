"""Falling asleep, waking, and what is kept meanwhile."""

from __future__ import annotations

from dataclasses import replace

from scheduler.scenario import group, play, variant, world

A, B = variant("a"), variant("b")
SLEEPER = variant("a", asleep={"gpu": 1}, asleep_ram=8, min_resident_s=0)


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
