"""Whether the process that began an experiment still runs it: one that was killed leaves it without an end."""

from __future__ import annotations

import os
from pathlib import Path

_START = 19  # field of /proc/PID/stat after the command's name: when it began, in ticks since boot


def own_mark() -> str:
    """This process: its id alone would be another's one day."""
    return f"{os.getpid()} {_began(os.getpid())}"


def lives(mark: str) -> bool:
    """Whether the process behind a mark is there."""
    pid, _, began = mark.partition(" ")
    return _began(int(pid)) == began


def _began(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[_START]
