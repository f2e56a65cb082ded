"""Which processes still live, and waiting for what nothing announces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path


def alive(pids: Iterable[int]) -> list[int]:
    """Those of ``pids`` that still run; a zombie does not."""
    return [pid for pid in pids if _state(pid) not in ("", "Z", "X")]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def wait_for(condition: Callable[[], object], deadline_s: float = 10.0) -> None:
    """Block until it holds. Raises TimeoutError."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            msg = "the condition did not come to hold"
            raise TimeoutError(msg)
        time.sleep(0.005)
