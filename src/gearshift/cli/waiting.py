"""Waiting on a slow admin operation while its stages are shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gearshift.cli.client import AdminClient
from gearshift.cli.failure import TimedOutError
from gearshift.cli.progress import Progress

POLL_S = 0.2
Rows = Sequence[Mapping[str, Any]]


def watch(
    admin: AdminClient, path: str, *, phase: Callable[[Rows], str], progress: Progress, timeout_s: float | None
) -> Any:
    """POST ``path`` and show ``phase`` of the rows until it answers; the decoded answer.

    Leaving early (Ctrl-C, a timeout) closes the connection, by which the server knows that nobody waits any more.
    Raises TimedOutError after ``timeout_s``, and what the operation raises.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    with admin.sent("POST", path) as request:
        while not request.answered(within_s=POLL_S):
            if deadline is not None and time.monotonic() > deadline:
                msg = f"not done after {timeout_s:g} s"
                raise TimedOutError(msg, hint="a load goes on only while others wait for it; see gearshift ps")
            progress(phase(admin.get("/variants")))
        return request.document()
