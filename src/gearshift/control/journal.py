"""What happened, in order: a ring of server events that any number of readers follow at their own pace."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gearshift.domain.admin import ServerEvent

KEPT = 1024  # events a late reader can still get


class Journal:
    """Append never waits for a reader; a reader that fell behind the ring gets one ``events.lost`` in their place."""

    def __init__(self, first: int | None = None) -> None:
        """``first`` is the id of the first event: by default the time in microseconds since 1970.

        So a later server's ids lie above every earlier one's, which gave out fewer than one each microsecond. They
        stay below 2**53 until 2255, so that any JSON reader has them exact.
        """
        self._events: deque[ServerEvent] = deque(maxlen=KEPT)
        self._first = self._next = time.time_ns() // 1000 if first is None else first
        self._news = asyncio.Event()
        self._closed = False

    def add(self, kind: str, **data: object) -> None:
        """Record one event now."""
        self._events.append(ServerEvent(self._next, time.time(), kind, data))
        self._next += 1
        self._wake()

    def close(self) -> None:
        """End every reader once it has read what there is."""
        self._closed = True
        self._wake()

    @asynccontextmanager
    async def follow(self, after: int | None) -> AsyncIterator[AsyncIterator[ServerEvent]]:
        """Iterate events newer than ``after`` (None = only those to come).

        An id that was never given out is an earlier server's: whoever resumes from it gets all of this one's, and
        ``events.lost`` for those no longer kept. 0 asks for what is kept.
        """
        yield self._read(self._resumed(after))

    def _resumed(self, after: int | None) -> int:
        """The newest id that a reader has seen, or would have."""
        if after is None:
            return self._next - 1
        ours = self._first <= after < self._next
        return after if ours or after == 0 else self._first - 1

    async def _read(self, seen: int) -> AsyncIterator[ServerEvent]:
        while True:
            news = self._news
            for event in self._newer(seen):
                seen = event.id
                yield event
            if self._closed:
                return
            if news is self._news:
                await news.wait()

    def _newer(self, seen: int) -> list[ServerEvent]:
        newer = [event for event in self._events if event.id > seen]
        if newer and newer[0].id > seen + 1 and seen > 0:
            gap = ServerEvent(newer[0].id - 1, newer[0].at, "events.lost", {"count": newer[0].id - 1 - seen})
            return [gap, *newer]
        return newer

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
