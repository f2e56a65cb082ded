"""Keep-alive comments while an engine that has the request says nothing: a long prefill, its own queue."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from gearshift.gateway.meter import Figures
from gearshift.gateway.reply import Reply


class Heartbeat:
    """``with``: an SSE comment after every ``every_s`` in which no event was forwarded.

    Events are only ever forwarded whole, so a comment fits between any two writes. It costs a stream nothing per
    event: the timer looks at the event count, the stream never touches the timer.
    """

    def __init__(self, reply: Reply, figures: Figures, every_s: float, text: str) -> None:
        self._reply = reply
        self._figures = figures
        self._every_s = every_s
        self._text = text
        self._seen = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pending in (self._timer, self._writing):
            if pending is not None:
                pending.cancel()

    def _arm(self) -> None:
        self._timer = self._loop.call_later(self._every_s, self._beat)

    def _beat(self) -> None:
        reply, events = self._reply, self._figures.events
        if reply.whole or (reply.begun and not reply.streams):
            return
        if events != self._seen:
            self._seen = events
            self._arm()
        else:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        await self._reply.comment(self._text)  # waits where the client reads slowly; the next beat waits with it
        self._arm()
