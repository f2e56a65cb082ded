"""How many files the server may hold open: a stream costs two, its client's connection and its engine's."""

from __future__ import annotations

import resource
from typing import Final

OPEN_FILES: Final = (
    65_536  # of every process started from here too: more would make engines that close all of them slow
)


def raise_open_files() -> int:
    """Raise the soft limit of open files to the hard one, at most `OPEN_FILES`; never lower it. Returns what it is.

    The soft limit is 1024 on most boxes, for programs that use select(2), which nothing here does.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = raised(soft, hard)
    if wanted != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def raised(soft: int, hard: int) -> int:
    """The soft limit to set; `resource.RLIM_INFINITY` (-1) stands for none in both."""
    if soft == resource.RLIM_INFINITY:
        return soft
    reachable = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    return max(soft, reachable)
