"""Leases that an operator holds through the admin API: named, renewable, and over when their time passes unrenewed."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, field, replace

from gearshift.control.loop import Control
from gearshift.control.tickets import HeldLease, Waited
from gearshift.domain.admin import LONGEST_LEASE_S, OperatorLease
from gearshift.domain.errors import GearshiftError, UnknownIdError
from gearshift.domain.leasing import Lease


@dataclass(slots=True)
class _Held:
    public: OperatorLease  # as the admin API shows it
    lease: Lease
    timer: asyncio.TimerHandle
    watch: asyncio.Task[None]
    shares: set[HeldLease] = field(default_factory=set)


class OperatorLeases:
    """Every operator lease in force."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._held: dict[str, _Held] = {}
        control.share_by(self.share)

    def all(self) -> tuple[OperatorLease, ...]:
        return tuple(held.public for held in self._held.values())

    async def take(self, variant: str, *, exclusive: bool, ttl_s: float) -> OperatorLease:
        """Wait for the variant like any request, then hold it. A caller that goes away leaves the queue.

        Raises GearshiftError for a time out of range, and what any request may be refused with.
        """
        ttl_s = _checked(ttl_s)
        ticket = self._control.request(variant, exclusive=exclusive)
        try:
            lease = await ticket.wait()
        except asyncio.CancelledError:
            ticket.leave()
            raise
        if lease is None:  # only with a timeout, and there is none
            raise GearshiftError(f"no lease on {variant} was granted")
        public = OperatorLease(
            secrets.token_hex(8), variant, exclusive, ttl_s, time.time() + ttl_s, lease.upstream.endpoint.base_url
        )
        watch = asyncio.create_task(self._watch(public.id, lease), name=f"operator lease {public.id}")
        self._held[public.id] = _Held(public, lease, self._arm(public.id, ttl_s), watch)
        self._control.journal.add("lease.taken", id=public.id, variant=variant, exclusive=exclusive)
        return public

    def share(self, lease_id: str, variant: str) -> Lease:
        """A request's part in a lease: no wait, whatever the engine's slots. Raises UnknownIdError.

        It keeps nothing resident by itself, so it is taken back when the lease ends.
        """
        held = self._get(lease_id)
        if held.public.variant != variant:
            hint = f"name {held.public.variant} as the model, or take a lease on {variant}"
            raise UnknownIdError(f"the lease {lease_id!r} is on {held.public.variant}, not on {variant}", hint=hint)
        whole = held.lease
        share = HeldLease(whole.variant, whole.upstream, Waited(0.0, 0.0), lambda: held.shares.discard(share))
        held.shares.add(share)
        return share

    def renew(self, lease_id: str, ttl_s: float | None) -> OperatorLease:
        """``ttl_s`` None: for as long as before. Raises UnknownIdError, and GearshiftError for a time out of range."""
        held = self._get(lease_id)
        ttl_s = _checked(held.public.ttl_s if ttl_s is None else ttl_s)
        held.timer.cancel()
        held.timer = self._arm(lease_id, ttl_s)
        held.public = replace(held.public, ttl_s=ttl_s, expires=time.time() + ttl_s)
        return held.public

    def end(self, lease_id: str, reason: str = "released") -> None:
        """Raises UnknownIdError when there is none of that id (it may have expired)."""
        held = self._get(lease_id)
        del self._held[lease_id]
        held.timer.cancel()
        held.watch.cancel()
        for share in held.shares:
            share.revoke(f"the operator's lease it was under has ended: {reason}")
        held.lease.release()
        self._control.journal.add("lease.ended", id=lease_id, variant=held.public.variant, reason=reason)

    def close(self) -> None:
        for lease_id in list(self._held):
            self.end(lease_id, "the server is stopping")

    def _arm(self, lease_id: str, ttl_s: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(ttl_s, self.end, lease_id, "expired")

    async def _watch(self, lease_id: str, lease: Lease) -> None:
        """An engine's death or a drain timeout ends the lease; its holder finds it gone."""
        revoked = asyncio.ensure_future(lease.revoked())
        await asyncio.wait({revoked})
        self.end(lease_id, revoked.result())

    def _get(self, lease_id: str) -> _Held:
        held = self._held.get(lease_id)
        if held is None:
            raise UnknownIdError(f"there is no lease {lease_id!r}", hint="it was released, expired, or its engine died")
        return held


def _checked(ttl_s: float) -> float:
    if not 0 < ttl_s <= LONGEST_LEASE_S:
        hint = f"ttl is above 0 and at most {LONGEST_LEASE_S:.0f} seconds"
        raise GearshiftError(f"a lease cannot last {ttl_s} s", hint=hint)
    return ttl_s
