"""Who must leave for whom, by bytes and by groups."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gearshift.scheduler import World
from gearshift.scheduler.fit import Eviction, Tenant, eviction_for
from scheduler.scenario import group


def tenant(name: str, size: int | None, *devices: str) -> Tenant:
    places = devices or ("gpu",)
    return Tenant(name, frozenset(places), None if size is None else dict.fromkeys(places, size))


BOX = World(capacity={"gpu": 10, "gpu1": 10})


def test_nobody_leaves_where_there_is_room() -> None:
    assert eviction_for(BOX, tenant("new", 4), [tenant("a", 6)]) == Eviction()


def test_the_dearest_are_spared_first_when_fewer_are_enough() -> None:
    residents = [tenant("cheap", 2), tenant("dearer", 3), tenant("dearest", 5)]
    assert eviction_for(BOX, tenant("new", 6), residents).victims == ("cheap", "dearest")
    assert eviction_for(BOX, tenant("new", 5), residents).victims == ("cheap", "dearer")
    assert eviction_for(BOX, tenant("new", 1), list(reversed(residents))).victims == ("dearest",)


def test_a_resident_on_another_device_stays() -> None:
    residents = [tenant("other", 9, "gpu1"), tenant("a", 9)]
    assert eviction_for(BOX, tenant("new", 9), residents).victims == ("a",)


def test_a_hopeless_newcomer_spares_who_was_declared_to_fit_beside_it() -> None:
    box = World(capacity={"gpu": 10}, constraints=(group("a", "new", swap=False),))
    assert eviction_for(box, tenant("new", 30), [tenant("a", 5), tenant("b", 5)]).victims == ("b",)


def test_what_is_stuck_blocks_only_where_nobody_else_can_make_room() -> None:
    stuck = Tenant("stuck", frozenset({"gpu"}), {"gpu": 4}, fixed=True)
    assert eviction_for(BOX, tenant("new", 6), [stuck, tenant("a", 6)]).victims == ("a",)
    assert eviction_for(BOX, tenant("new", 7), [stuck, tenant("a", 6)]) == Eviction(blocked_by=("stuck",))


@given(st.lists(st.integers(1, 10), max_size=6), st.integers(1, 10))
def test_the_rest_fits_and_nobody_leaves_in_vain(sizes: list[int], need: int) -> None:
    residents = [tenant(f"t{place}", size) for place, size in enumerate(sizes)]
    leaving = eviction_for(BOX, tenant("new", need), residents).victims
    staying = sum(size for place, size in enumerate(sizes) if f"t{place}" not in leaving)
    assert staying + need <= 10
    assert all(staying + need + sizes[int(name[1:])] > 10 for name in leaving)
