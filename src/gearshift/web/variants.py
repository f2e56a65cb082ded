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
from gearshift.domain.provenance import Provenance
from gearshift.web.bodies import LogQuery, NoQuery, Nothing
from gearshift.web.logs import follow, tail
from gearshift.web.operations import Call
from gearshift.web.streams import streaming, unless_gone


def _row(admin: Admin, name: str) -> VariantStatus:
    """The variant of this id, or a model's only one. What an alias or a route means can change, and is not asked."""
    variants = admin.status().variants
    if found := next((row for row in variants if row.variant == name), None):
        return found
    of_model = [row for row in variants if row.variant.rpartition(":")[0] == name]
    if len(of_model) == 1:
        return of_model[0]
    known = ", ".join(row.variant for row in of_model or variants)
    msg = f"{name!r} is a model of several variants" if of_model else f"there is no variant {name!r}"
    raise UnknownModelError(msg, hint=f"{'name one' if of_model else 'known are'}: {known or 'none'}")


async def rows(admin: Admin, _: Call[NoQuery, Nothing]) -> Sequence[VariantStatus]:
    """Every variant in file order."""
    return admin.status().variants


async def row(admin: Admin, call: Call[NoQuery, Nothing]) -> VariantStatus:
    """One variant. Raises UnknownModelError."""
    return _row(admin, call.name)


async def provenance(admin: Admin, call: Call[NoQuery, Nothing]) -> Provenance:
    """What makes a running variant the same again. Raises UnknownModelError, NotRunningError."""
    return await unless_gone(call.request, admin.provenance(_row(admin, call.name).variant))


async def load(admin: Admin, call: Call[NoQuery, Nothing]) -> VariantStatus:
    """Loads and waits; a client that goes away leaves the queue like any other waiter. Raises UnknownModelError."""
    variant = _row(admin, call.name).variant
    await unless_gone(call.request, admin.load(variant))
    return _row(admin, variant)


async def unload(admin: Admin, call: Call[NoQuery, Nothing]) -> VariantStatus:
    """Unloads and waits. A stop that has begun is carried through, whether or not the client stays to see it."""
    variant = _row(admin, call.name).variant
    await admin.unload(variant)
    return _row(admin, variant)


async def logs(admin: Admin, call: Call[LogQuery, Nothing]) -> Response:
    """The newest launch's log as text; empty when it was never started. Raises UnknownModelError.

    Following ends when the server is being stopped and the engine has ended: an open stream would keep the server.
    """
    variant = _row(admin, call.name).variant

    def ended() -> bool:
        status = admin.status()
        return not (status.accepting or any(row.pids for row in status.variants if row.variant == variant))

    return await log_response(partial(admin.log_path, variant), call.query, ended=ended)


async def log_response(
    newest: Callable[[], Path | None], query: LogQuery, *, ended: Callable[[], bool] = lambda: False
) -> Response:
    """A log file's tail, or an open stream that follows it until ``ended``."""
    if query.follow:
        return streaming(follow(newest, query.tail, ended=ended), "text/plain")
    path = newest()
    text = b"" if path is None else (await asyncio.to_thread(tail, path, query.tail))[0]
    return Response(text, media_type="text/plain", headers={"Cache-Control": "no-store"})
