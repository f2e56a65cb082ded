from __future__ import annotations

import asyncio

import pytest

from gearshift.control import Journal
from gearshift.control.journal import KEPT

pytestmark = pytest.mark.anyio


async def test_a_reader_gets_what_is_kept_and_then_what_comes() -> None:
    journal = Journal()
    journal.add("one", n=1)
    async with journal.follow(0) as events:
        first = await anext(events)
        assert (first.id, first.kind, first.data) == (1, "one", {"n": 1})
        waiting = asyncio.ensure_future(anext(events))
        journal.add("two")
        assert (await waiting).id == 2


async def test_a_reader_without_a_start_sees_only_news() -> None:
    journal = Journal()
    journal.add("old")
    async with journal.follow(None) as events:
        journal.add("new")
        assert (await anext(events)).kind == "new"


async def test_a_reader_that_fell_behind_is_told_how_much_it_missed() -> None:
    journal = Journal()
    for _ in range(KEPT + 5):
        journal.add("x")
    async with journal.follow(2) as events:
        gap = await anext(events)
        assert (gap.kind, gap.data) == ("events.lost", {"count": 3})
        assert (await anext(events)).id == 6


async def test_a_reader_that_resumes_from_an_earlier_server_gets_all_of_this_one() -> None:
    journal = Journal()
    journal.add("started")
    async with journal.follow(5000) as events:
        assert (await anext(events)).kind == "started"
        journal.add("next")
        assert (await anext(events)).kind == "next"


async def test_closing_ends_every_reader() -> None:
    journal = Journal()
    async with journal.follow(None) as events:
        journal.close()
        assert [event async for event in events] == []
