"""A place in a queue, and the lease it becomes: control's own forms of `domain.leasing`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gearshift.domain.leasing import Lease, Upstream
from gearshift.domain.variant import Variant


@dataclass(frozen=True, slots=True)
class Waited:
    """How long a ticket waited, seconds: in the queue, and for the load that happened meanwhile."""

    queued_s: float
    load_s: float


class HeldLease:
    """A granted lease. Released once; releasing again does nothing."""

    __slots__ = ("_release", "_revoked", "_upstream", "_variant", "_waited")

    def __init__(self, variant: Variant, upstream: Upstream, waited: Waited, release: Callable[[], None]) -> None:
        self._variant = variant
        self._upstream = upstream
        self._waited = waited
        self._release: Callable[[], None] | None = release
        self._revoked: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def variant(self) -> Variant:
        return self._variant

    @property
    def upstream(self) -> Upstream:
        return self._upstream

    @property
    def queued_s(self) -> float:
        return self._waited.queued_s

    @property
    def load_s(self) -> float:
        return self._waited.load_s

    def revoked(self) -> asyncio.Future[str]:
        """A future that must not be cancelled by its readers: wait on it with `asyncio.wait`."""
        return self._revoked

    def revoke(self, reason: str) -> None:
        """Take the lease back; its holder learns why."""
        if not self._revoked.done():
            self._revoked.set_result(reason)

    def release(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()


class QueueTicket:
    """A waiter's handle. The future settles once, with a lease or with the error that ended the wait."""

    __slots__ = ("_future", "_leave", "_progress", "number", "variant")

    def __init__(
        self, number: int, variant: str, *, leave: Callable[[int], None], progress: Callable[[int, str], str]
    ) -> None:
        self.number = number
        self.variant = variant
        self._future: asyncio.Future[HeldLease] = asyncio.get_running_loop().create_future()
        self._leave = leave
        self._progress = progress

    @property
    def progress(self) -> str:
        return self._progress(self.number, self.variant)

    @property
    def refusal(self) -> BaseException | None:
        """The error that ended the wait, if one did."""
        return self._future.exception() if self._future.done() and not self._future.cancelled() else None

    async def wait(self, timeout_s: float | None = None) -> Lease | None:
        if not self._future.done():
            # The future outlives an impatient or cancelled waiter: asyncio.wait never cancels what it waits for.
            await asyncio.wait({self._future}, timeout=timeout_s)
        return self._future.result() if self._future.done() else None

    def leave(self) -> None:
        if not self._future.done():
            self._future.cancel()
            self._leave(self.number)
        elif not self._future.cancelled() and self._future.exception() is None:
            self._future.result().release()

    def grant(self, lease: HeldLease) -> bool:
        """Settle with a lease. False when the waiter has left meanwhile."""
        if self._future.done():
            return False
        self._future.set_result(lease)
        return True

    def refuse(self, error: Exception) -> None:
        """Settle with the error that ends the wait."""
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()  # nobody may be waiting any more: that is no unhandled error
