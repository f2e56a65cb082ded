"""Answers that stay open: server-sent events, held leases, and waits that end when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, TypeVar

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import StreamingResponse

from gearshift.domain.admin import Admin, OperatorLease, ServerEvent
from gearshift.edge.asgi import ClientGoneError, until_gone

KEEPALIVE_S = 15.0  # below the idle limits of common reverse proxies (nginx 60 s, Cloudflare 100 s)
LEASE_CHECK_S = 0.5
EVENT_STREAM = "text/event-stream"
JSON_LINES = "application/x-ndjson"

T = TypeVar("T")

_EVENT: TypeAdapter[ServerEvent] = TypeAdapter(ServerEvent)
_LEASE: TypeAdapter[OperatorLease] = TypeAdapter(OperatorLease)


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, cancelled as soon as the client goes away. Raises ClientGoneError then."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(until_gone(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        await _cancelled(task, gone)


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def streaming(content: AsyncIterator[bytes], media_type: str) -> StreamingResponse:
    """An answer that is sent as it comes; buffering proxies are told to pass it through."""
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(content, media_type=media_type, headers=headers)


async def event_stream(
    admin: Admin, after: int | None, keepalive_s: float = KEEPALIVE_S
) -> AsyncGenerator[bytes, None]:
    """Server events in SSE form, with a comment whenever nothing happened for ``keepalive_s``."""
    async with admin.events(after=after) as events:
        yield b": connected\n\n"  # only now: whoever reads it may count on all that happens next
        async for event in _or_silence(events, keepalive_s):
            yield b": keep-alive\n\n" if event is None else _sse(event)


def _sse(event: ServerEvent) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.id, event.kind.encode(), _EVENT.dump_json(event))


async def _or_silence(events: AsyncIterator[ServerEvent], silence_s: float) -> AsyncIterator[ServerEvent | None]:
    """Each event, and None for each ``silence_s`` without one.

    The pending read is kept across silences: cancelling it would end the generator it reads from.
    """
    pending: asyncio.Future[ServerEvent] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({pending}, timeout=silence_s)
            if not done:
                yield None
                continue
            try:
                event = pending.result()
            except StopAsyncIteration:
                return
            pending = None
            yield event
    finally:
        if pending is not None:
            await _cancelled(pending)


async def held_lease(admin: Admin, lease: OperatorLease) -> AsyncIterator[bytes]:
    """The lease as JSON lines, one at once and one per renewal; the end of the connection ends the lease.

    The stream ends within LEASE_CHECK_S of a lease that ended otherwise: that is how its holder learns of it.
    """
    try:
        yield _LEASE.dump_json(lease) + b"\n"
        while True:
            if not await _is_held_for(admin, lease.id, lease.ttl_s / 3):
                return
            lease = admin.renew_lease(lease.id)
            yield _LEASE.dump_json(lease) + b"\n"
    finally:
        if _is_held(admin, lease.id):
            admin.end_lease(lease.id)


async def _is_held_for(admin: Admin, lease_id: str, seconds: float) -> bool:
    """Whether the lease is still in force after so long; False as soon as it is not."""
    deadline = asyncio.get_running_loop().time() + seconds
    while _is_held(admin, lease_id):
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return True
        await asyncio.sleep(min(left, LEASE_CHECK_S))
    return False


def _is_held(admin: Admin, lease_id: str) -> bool:
    return any(lease.id == lease_id for lease in admin.leases())
