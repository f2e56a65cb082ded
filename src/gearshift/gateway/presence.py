"""Two ends that can vanish while a request is served: the client, and the engine behind the lease.

Both are watched from the side and end the serving task by cancelling it, so that the code in between awaits plainly.
Each turns its own cancellation, and only its own, into an exception with a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from gearshift.domain.errors import InterruptedLeaseError
from gearshift.domain.leasing import Lease
from gearshift.edge.asgi import ClientGoneError
from gearshift.gateway.reply import Reply

Watch = Callable[[], Awaitable[None]]
"""Returns when the client is gone; what it raises ends the request."""


class _Interruption:
    """Cancels the task that entered it, at most once, and takes that cancellation back on leaving.

    The cancellation is delivered at the await in which that task is suspended, which lies inside the block: callbacks
    only run while the task is suspended.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self.fired = False

    def enter(self) -> None:
        self._task = asyncio.current_task()

    def fire(self) -> None:
        if self._task is not None and not self.fired:
            self.fired = True
            self._task.cancel()

    def leave(self) -> bool:
        """Whether it fired; after this the task counts as not cancelled by us."""
        task, self._task = self._task, None
        if self.fired and task is not None:
            task.uncancel()
        return self.fired


class Presence:
    """``async with``: what its watch finds is raised out of the block, unless the answer is whole by then.

    Enter it when nobody else reads from the client any more: the watch owns ``receive`` from then on.
    """

    def __init__(self, watch: Watch, reply: Reply) -> None:
        self._watch = watch
        self._reply = reply
        self._interruption = _Interruption()
        self._error: Exception = ClientGoneError()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._interruption.enter()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._interruption.leave() and kind is not None:
            raise self._error from error

    async def _run(self) -> None:
        try:
            await self._watch()
        except Exception as error:  # noqa: BLE001 - whatever it is, the request cannot go on and must say so
            self._error = error
        if not self._reply.whole:  # the server reports the end of a whole answer as a disconnect too
            self._interruption.fire()


class Hold:
    """``with``: the lease for the block; raises InterruptedLeaseError out of it when the lease is revoked.

    The lease is released on every way out.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._interruption = _Interruption()
        self._revoked: asyncio.Future[str] | None = None
        self._is_ours = False

    def __enter__(self) -> Self:
        self._interruption.enter()
        revoked: Awaitable[str] = self._lease.revoked()
        self._is_ours = not asyncio.isfuture(revoked)  # a future may be shared with other leases: never cancelled here
        self._revoked = asyncio.ensure_future(revoked)
        self._revoked.add_done_callback(self._on_revoked)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        revoked = self._revoked
        if revoked is not None:
            revoked.remove_done_callback(self._on_revoked)
            if self._is_ours:
                revoked.cancel()
        self._lease.release()
        if self._interruption.leave() and kind is not None and revoked is not None:
            raise InterruptedLeaseError(f"the answer was interrupted: {revoked.result()}") from error

    async def reason(self, patience_s: float) -> str | None:
        """Why the engine went, if control finds out within a short while."""
        if self._revoked is None:
            return None
        self._revoked.remove_done_callback(self._on_revoked)  # asked for from here on, no longer an interruption
        await asyncio.wait({self._revoked}, timeout=patience_s)
        return self._revoked.result() if self._revoked.done() and not self._revoked.cancelled() else None

    def _on_revoked(self, revoked: asyncio.Future[str]) -> None:
        if not revoked.cancelled() and revoked.exception() is None:
            self._interruption.fire()
