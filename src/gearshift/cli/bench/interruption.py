"""Ctrl-C and SIGTERM end a measurement in order: leases go back, and what is done is kept."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any


def run_until_signal(work: Coroutine[Any, Any, None]) -> int:
    """Run it, cancelled by the first SIGINT or SIGTERM; the exit status that the signal means, 0 without one.

    The handlers are set whatever was inherited: a shell starts what it puts into the background with SIGINT ignored,
    and so would every job of a server that was started there.
    """
    received: list[int] = []

    async def watched() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def end(number: int) -> None:
            received.append(number)
            if task is not None:
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, number)
        await work

    with suppress(asyncio.CancelledError):
        asyncio.run(watched())
    return 128 + received[0] if received else 0
