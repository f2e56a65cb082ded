"""Variants: their rows, loading and unloading them, their logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from starlette.responses import Response

from gearshift.domain.admin import Admin
from gearshift.domain.errors import UnknownModelError
from gearshift.domain.leasing import VariantStatus
from gearshift.web.bodies import LogQuery, NoQuery, Nothing
from gearshift.web.logs import follow, tail
from gearshift.web.operations import Call
from gearshift.web.streams import streaming, unless_gone


def _row(admin: Admin, name: str) -> VariantStatus:
    found = next((row for row in admin.status().variants if row.variant == name), None)
    if found is None:
        known = ", ".join(row.variant for row in admin.status().variants)
        msg = f"there is no variant {name!r}"
        raise UnknownModelError(msg, hint=f"known are: {known or 'none'}")
    return found


async def rows(admin: Admin, _: Call[NoQuery, Nothing]) -> Sequence[VariantStatus]:
    """Every variant in file order."""
    return admin.status().variants


async def row(admin: Admin, call: Call[NoQuery, Nothing]) -> VariantStatus:
    """One variant. Raises UnknownModelError."""
    return _row(admin, call.name)


async def load(admin: Admin, call: Call[NoQuery, Nothing]) -> VariantStatus:
    """Loads and waits; a client that goes away leaves the queue like any other waiter. Raises UnknownModelError.

    Only an exact id will do: what an alias means can change between the call and the answer.
    """
    _row(admin, call.name)
    await unless_gone(call.request, admin.load(call.name))
    return _row(admin, call.name)


async def unload(admin: Admin, call: Call[NoQuery, Nothing]) -> VariantStatus:
    """Unloads and waits. A stop that has begun is carried through, whether or not the client stays to see it."""
    _row(admin, call.name)
    await admin.unload(call.name)
    return _row(admin, call.name)


async def logs(admin: Admin, call: Call[LogQuery, Nothing]) -> Response:
    """The newest launch's log as text; empty when it was never started. Raises UnknownModelError.

    Following ends when the server is being stopped and the engine has ended: an open stream would keep the server.
    """
    _row(admin, call.name)

    def ended() -> bool:
        status = admin.status()
        return not (status.accepting or any(row.pids for row in status.variants if row.variant == call.name))

    return await log_response(partial(admin.log_path, call.name), call.query, ended=ended)


async def log_response(
    newest: Callable[[], Path | None], query: LogQuery, *, ended: Callable[[], bool] = lambda: False
) -> Response:
    """A log file's tail, or an open stream that follows it until ``ended``."""
    if query.follow:
        return streaming(follow(newest, query.tail, ended=ended), "text/plain")
    path = newest()
    text = b"" if path is None else (await asyncio.to_thread(tail, path, query.tail))[0]
    return Response(text, media_type="text/plain", headers={"Cache-Control": "no-store"})
