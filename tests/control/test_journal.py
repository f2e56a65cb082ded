from __future__ import annotations

import asyncio

import pytest

from gearshift.control import Journal
from gearshift.control.journal import KEPT

pytestmark = pytest.mark.anyio


async def test_a_reader_gets_what_is_kept_and_then_what_comes() -> None:
    journal = Journal(1)
    journal.add("one", n=1)
    async with journal.follow(0) as events:
        first = await anext(events)
        assert (first.id, first.kind, first.data) == (1, "one", {"n": 1})
        waiting = asyncio.ensure_future(anext(events))
        journal.add("two")
        assert (await waiting).id == 2


async def test_a_reader_without_a_start_sees_only_news() -> None:
    journal = Journal(1)
    journal.add("old")
    async with journal.follow(None) as events:
        journal.add("new")
        assert (await anext(events)).kind == "new"


async def test_a_reader_that_fell_behind_is_told_how_much_it_missed() -> None:
    journal = Journal(1)
    for _ in range(KEPT + 5):
        journal.add("x")
    async with journal.follow(2) as events:
        gap = await anext(events)
        assert (gap.kind, gap.data) == ("events.lost", {"count": 3})
        assert (await anext(events)).id == 6


async def test_a_reader_that_resumes_from_an_earlier_server_gets_all_of_this_one() -> None:
    journal = Journal(1)
    journal.add("started")
    async with journal.follow(5000) as events:
        assert (await anext(events)).kind == "started"
        journal.add("next")
        assert (await anext(events)).kind == "next"


@pytest.mark.parametrize("of_the_earlier", [0, 1, -1], ids=["its first event", "its second", "its last"])
async def test_no_id_of_an_earlier_server_hides_an_event_of_this_one(of_the_earlier: int) -> None:
    earlier = Journal()
    for _ in range(5):
        earlier.add("before")
    async with earlier.follow(0) as events:
        ids = [(await anext(events)).id for _ in range(5)]

    later = Journal()
    for number in range(7):  # more than the earlier one had
        later.add("after", n=number)
    async with later.follow(ids[of_the_earlier]) as events:
        seen = [await anext(events) for _ in range(7)]
    assert [event.data["n"] for event in seen] == list(range(7))
    assert seen[0].id > ids[-1]


async def test_a_reader_that_resumes_after_a_restart_is_told_what_the_new_server_no_longer_keeps() -> None:
    journal = Journal(10_000)
    for _ in range(KEPT + 5):
        journal.add("x")
    async with journal.follow(300) as events:
        gap = await anext(events)
        assert (gap.kind, gap.data) == ("events.lost", {"count": 5})
        assert (await anext(events)).id == 10_005


async def test_closing_ends_every_reader() -> None:
    journal = Journal(1)
    async with journal.follow(None) as events:
        journal.close()
        assert [event async for event in events] == []
