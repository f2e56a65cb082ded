"""The one timer of the control loop: it rings when time alone will change something."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

NEVER = float("inf")


class Alarm:
    """Calls ``ring`` at the earliest time that it was set to; monotonic seconds."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._at = NEVER

    def set(self, at: float | None) -> None:
        """Ring at ``at``. An alarm that is set to an earlier time stays: it rings, and finds nothing to do."""
        if at is None or at >= self._at:
            return
        self.cancel()
        self._at = at
        self._timer = asyncio.get_running_loop().call_later(max(0.0, at - time.monotonic()), self._rung)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = None, NEVER

    def _rung(self) -> None:
        self._timer, self._at = None, NEVER
        self._ring()
