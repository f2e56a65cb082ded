"""Waits against each other: the first one decides, the others are cancelled and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


async def first_of(*waits: Coroutine[Any, Any, T]) -> T:
    """Result (or exception) of the wait that ends first; of those that end together, of the one named first."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def never() -> NoReturn:
    """A wait that only a cancellation ends: what is switched off takes part in a race without deciding it."""
    await asyncio.Event().wait()
    raise AssertionError
