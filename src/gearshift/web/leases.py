"""Leases: keep a variant resident, by renewing in time or by holding a connection open."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from gearshift.domain.admin import Admin, OperatorLease
from gearshift.domain.errors import UnknownIdError
from gearshift.web.bodies import HoldQuery, LeaseRequest, NoQuery, Nothing, RenewRequest
from gearshift.web.errors import not_found
from gearshift.web.operations import Call
from gearshift.web.streams import JSON_LINES, held_lease, streaming, unless_gone


async def listed(admin: Admin, _: Call[NoQuery, Nothing]) -> Sequence[OperatorLease]:
    """Every lease held through this API."""
    return admin.leases()


async def one(admin: Admin, call: Call[NoQuery, Nothing]) -> OperatorLease:
    """One lease by id."""
    found = next((lease for lease in admin.leases() if lease.id == call.name), None)
    if found is None:
        raise not_found(call.name, what="lease")
    return found


async def take(admin: Admin, call: Call[HoldQuery, LeaseRequest]) -> OperatorLease | Response:
    """Waits like a request does; with ``hold`` the open answer is the lease."""
    asked = call.body
    taking = admin.take_lease(asked.variant, exclusive=asked.exclusive, ttl_s=asked.ttl)
    lease = await unless_gone(call.request, taking)
    return streaming(held_lease(admin, lease), JSON_LINES) if call.query.hold else lease


async def renew(admin: Admin, call: Call[NoQuery, RenewRequest]) -> OperatorLease:
    """The lease with its new expiry."""
    try:
        return admin.renew_lease(call.name, ttl_s=call.body.ttl)
    except UnknownIdError:  # asking first would race with its expiry
        raise not_found(call.name, what="lease") from None


async def end(admin: Admin, call: Call[NoQuery, Nothing]) -> None:
    """Ends it; the variant may be unloaded from now on."""
    try:
        admin.end_lease(call.name)
    except UnknownIdError:
        raise not_found(call.name, what="lease") from None
