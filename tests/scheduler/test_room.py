"""Who may be resident beside whom, and who makes room: tables of events and effects."""

from __future__ import annotations

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
